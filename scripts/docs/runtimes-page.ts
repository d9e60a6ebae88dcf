import type { MatrixCase } from '../../packages/conformance/src/runtime-case.ts'

/** What one page shows, and which run writes it. */
interface RuntimesPage {
  readonly title: string
  readonly writtenBy: string
  /** About its attacks, in addition to what holds for all. */
  readonly note: string
  /** Runtimes in the order of the page. */
  readonly attacked: readonly string[]
  readonly kinds: readonly string[]
}

/** docs/runtimes.md */
export const hostRuntimes: RuntimesPage = {
  title: 'Runtimes, case by case',
  writtenBy:
    'the last whole run of `npm test` on a machine with every engine; do not edit. [Sandboxes](sandboxes.md) explains the runtimes.',
  note: '`unsafe_host` is that control: it guards against nothing, and is not attacked. 82 and later are against interpreters and modules in WebAssembly (–: there is nothing like it in the runtime).',
  attacked: ['process', 'wasm'],
  kinds: ['process', 'wasm', 'remote', 'unsafe_host'],
}

/** docs/container-runtimes.md */
export const containerRuntimes: RuntimesPage = {
  title: 'Runtimes of containers, clusters, virtual machines and other hosts, case by case',
  writtenBy:
    'the last whole run of `npm run test:engines`; do not edit. [Containers](containers.md) and [kubernetes](runtimes/kubernetes.md) explain the runtimes. `kubernetes` is a cluster of one node with runc, `agent-sandbox` its mode with claims on warm pools. `proxmox_lxc` is a server that keeps to the published API of Proxmox VE, whose containers are real ones of plain LXC from Debian with the settings of Proxmox but without AppArmor; Proxmox VE itself does not run here. `kata` needs KVM, which the machines of the tests do not have. `qemu` is emulated. `firecracker` needs KVM too: a server that keeps to the published API of Firecracker and its jailer has its place, whose sandboxes are inits of the host with the folders of an image, so that neither the machine nor the limits of its kernel are tried, and it is not attacked.',
  note: '`remote` is `process` on a host of its own over the loopback, and for the conformance suite through a proxy that cuts connections. `temporal` is `process` on a worker of Temporal.',
  attacked: [
    'docker',
    'containerd',
    'gvisor',
    'gvisor through containerd',
    'kubernetes',
    'agent-sandbox',
    'qemu',
    'proxmox_lxc',
    'remote',
    'temporal',
  ],
  kinds: [
    'docker',
    'containerd',
    'gvisor',
    'gvisor through containerd',
    'kubernetes',
    'agent-sandbox',
    'qemu',
    'firecracker',
    'proxmox_lxc',
    'remote through cuts',
    'temporal',
  ],
}

/** A page from the cases that a test run recorded; the same cases give the same page. */
export function runtimesPage(page: RuntimesPage, cases: readonly MatrixCase[]): string {
  const attacks = cases.filter(({ suite }) => suite === 'attack')
  const conformance = cases.filter(({ suite }) => suite === 'conformance')
  return [
    `# ${page.title}`,
    `Written by ${page.writtenBy}`,
    '## Attacks',
    `Each attack runs in a sandbox of the runtime, and the test looks for its effect; as a control the same attack runs where nothing guards, and must work there. The numbers are those of our attack list. ${page.note}`.trim(),
    ...matrix(attacks, page.attacked, (one) => `${one.number}. ${one.title}`),
    '## Conformance',
    'What every runtime promises, program by program and limit by limit.',
    ...matrix(conformance, page.kinds, (one) => one.title),
    '',
  ].join('\n\n')
}

function matrix(
  cases: readonly MatrixCase[],
  columns: readonly string[],
  titleOf: (one: MatrixCase) => string,
): readonly string[] {
  const titles = [...new Map(cases.map((one) => [titleOf(one), one])).entries()]
  titles.sort(([, one], [, other]) => (one.number ?? 0) - (other.number ?? 0))
  const notes: string[] = []
  const cell = (title: string, kind: string): string => {
    const found = cases.find((one) => one.runtime === kind && titleOf(one) === title)
    if (found === undefined) return '–'
    if (found.reason === undefined) return found.end
    if (!notes.includes(found.reason)) notes.push(found.reason)
    return `${found.end} (${notes.indexOf(found.reason) + 1})`
  }
  const rows = titles.map(
    ([title]) => `| ${cellText(title)} | ${columns.map((kind) => cell(title, kind)).join(' | ')} |`,
  )
  const count = (kind: string, end: string): number =>
    cases.filter((one) => one.runtime === kind && one.end === end).length
  const sums = columns.map((kind) => {
    const ends = [...new Set(cases.map(({ end }) => end))].sort()
    return `- \`${kind}\`: ${ends.map((end) => `${count(kind, end)} ${end}`).join(', ')}`
  })
  return [
    sums.join('\n'),
    [`| case | ${columns.join(' | ')} |`, `| --- |${' --- |'.repeat(columns.length)}`, ...rows].join('\n'),
    notes.map((note, index) => `${index + 1}. ${cellText(note)}`).join('\n'),
  ]
}

function cellText(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;')
}
