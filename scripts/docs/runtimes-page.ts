import type { MatrixCase } from '../../packages/conformance/src/matrix.ts'

/** Runtimes in the order of the page. */
const kinds = ['process', 'wasm', 'unsafe_host']

/** docs/runtimes.md from the cases that a run of the tests noted; the same cases give the same page. */
export function runtimesPage(cases: readonly MatrixCase[]): string {
  const attacks = cases.filter(({ suite }) => suite === 'attack')
  const conformance = cases.filter(({ suite }) => suite === 'conformance')
  return [
    '# Runtimes, case by case',
    'Written by the last whole run of `npm test` on a machine with every engine; do not edit. [Sandboxes](sandboxes.md) explains the runtimes.',
    '## Attacks',
    'Each attack was tried in a sandbox of the runtime and its effect looked for; beside it, as a control, the same attack where nothing guards, which must work. The numbers are those of our attack list. `unsafe_host` is that control: it guards against nothing, and is not attacked. 82 and later are against interpreters and modules in WebAssembly (–: there is nothing like it in the runtime).',
    ...matrix(attacks, ['process', 'wasm'], (one) => `${one.number}. ${one.title}`),
    '## Conformance',
    'What every runtime promises, program by program and limit by limit.',
    ...matrix(conformance, kinds, (one) => one.title),
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
