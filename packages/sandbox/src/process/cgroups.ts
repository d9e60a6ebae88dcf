import { readFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { SandboxLimit, SandboxLimits } from '@gantry/contract'
import { codeOf } from '@gantry/core/internal/files/private-file'
import type { CgroupPlan } from '../launcher/launcher.ts'
import {
  type CgroupFiles,
  type CgroupTree,
  type Controller,
  kernelFiles,
  type OpenTree,
  openTree,
  readLayout,
  removeCgroup,
  usedControllers,
} from './cgroup-trees.ts'

/** The contribution of one controller to the plan of one sandbox. */
type CgroupShare = Pick<CgroupPlan, 'settings' | 'figures' | 'watches'>

/** The optional kernel files that exist here, by name. */
type Present = ReadonlySet<string>

/** One controller of one tree, with the optional kernel files that exist here. */
interface Held {
  readonly tree: OpenTree
  /** `cpu.stat` stands for CPU time, which cgroup v2 measures in every group. */
  readonly controller: Controller | 'cpu.stat'
  readonly present: Present
}

/** The init and bubblewrap, which are in the group too. */
const ownProcesses = 2
const periodUs = 100_000

const tcpLimit = 'memory.kmem.tcp.limit_in_bytes'
const optional = ['memory.memsw.limit_in_bytes', tcpLimit, 'memory.swap.max', 'memory.oom.group', 'memory.peak']

async function presentIn(files: CgroupFiles, parent: string): Promise<Present> {
  const found = await Promise.all(optional.map((name) => files.has(join(parent, name))))
  return new Set(optional.filter((_, index) => found[index]))
}

/** The part of a controller in the plan of the group `folder`. */
function shareOf(held: Held, folder: string, limits: SandboxLimits, processors: number): CgroupShare {
  const { controller, tree, present } = held
  const at = (name: string): string => join(folder, name)
  if (controller === 'pids') return pidsShare(at, limits)
  if (controller === 'cpuacct') return timeShare({ file: at('cpuacct.usage') }, 'cpuNs', limits.cpuMs * 1_000_000)
  if (controller === 'cpu.stat') {
    return timeShare({ file: at('cpu.stat'), key: 'usage_usec' }, 'cpuUsec', limits.cpuMs * 1_000)
  }
  if (controller === 'cpu') return quotaShare(at, tree.version, processors)
  return tree.version === 1 ? memoryFirst(at, present, limits) : memorySecond(at, present, limits)
}

type At = (name: string) => string

function pidsShare(at: At, { pids }: SandboxLimits): CgroupShare {
  return {
    settings: [[at('pids.max'), String(pids + ownProcesses)]],
    figures: {},
    watches: [{ limit: 'pids', file: at('pids.events'), key: 'max', atLeast: 1 }],
  }
}

function timeShare(source: { file: string; key?: string }, name: string, atLeast: number): CgroupShare {
  return { settings: [], figures: { [name]: source }, watches: [{ limit: 'cpuMs', ...source, atLeast }] }
}

/** The CPU quota: processors at a time. The CPU time limit is separate. */
function quotaShare(at: At, version: 1 | 2, processors: number): CgroupShare {
  const quotaUs = Math.round(processors * periodUs)
  const settings: CgroupShare['settings'] =
    version === 2
      ? [[at('cpu.max'), `${quotaUs} ${periodUs}`]]
      : [
          [at('cpu.cfs_period_us'), String(periodUs)],
          [at('cpu.cfs_quota_us'), String(quotaUs)],
        ]
  return { settings, figures: {}, watches: [] }
}

function memoryFirst(at: At, present: Present, { memoryBytes }: SandboxLimits): CgroupShare {
  const bytes = String(memoryBytes)
  return {
    settings: [
      [at('memory.limit_in_bytes'), bytes],
      // memory.memsw must not be below the memory limit, hence the order.
      present.has('memory.memsw.limit_in_bytes')
        ? [at('memory.memsw.limit_in_bytes'), bytes]
        : [at('memory.swappiness'), '0'],
      // Socket buffers are not counted unless they have their own limit.
      ...(present.has(tcpLimit) ? [[at(tcpLimit), String(Math.ceil(memoryBytes / 4))] as const] : []),
    ],
    figures: { memoryPeakBytes: { file: at('memory.max_usage_in_bytes') } },
    watches: [
      { limit: 'memoryBytes', file: at('memory.oom_control'), key: 'oom_kill', atLeast: 1 },
      // The TCP limit is soft: each socket still gets its minimum buffer, so reaching the limit ends the run.
      ...(present.has(tcpLimit)
        ? [{ limit: 'memoryBytes', file: at('memory.kmem.tcp.failcnt'), atLeast: 1 } as const]
        : []),
    ],
  }
}

function memorySecond(at: At, present: Present, { memoryBytes }: SandboxLimits): CgroupShare {
  const settings: [string, string][] = [[at('memory.max'), String(memoryBytes)]]
  if (present.has('memory.swap.max')) settings.push([at('memory.swap.max'), '0'])
  if (present.has('memory.oom.group')) settings.push([at('memory.oom.group'), '1'])
  return {
    settings,
    figures: present.has('memory.peak') ? { memoryPeakBytes: { file: at('memory.peak') } } : {},
    watches: [{ limit: 'memoryBytes', file: at('memory.events'), key: 'oom_kill', atLeast: 1 }],
  }
}

/** The control groups that this process may create for its sandboxes. Having none is a valid state, not an error. */
export interface Cgroups {
  /** The mechanism of each enforced limit, such as `cgroup v1 memory`; an absent limit is not enforced by the kernel. */
  readonly enforced: { readonly [Limit in SandboxLimit]?: string }
  /** Why a limit is not enforced, one sentence each. */
  readonly missing: readonly string[]
  /** The parent groups of the sandboxes, one in each hierarchy. */
  readonly parents: readonly string[]
  plan(id: string, limits: SandboxLimits): CgroupPlan
  /** Kills everything in the groups and removes them. */
  close(): Promise<void>
}

interface CgroupsOptions {
  /** The owner name of the groups; see `ownName`. */
  readonly owner: string
  /** Processors that a sandbox may use at a time; 1 when absent. */
  readonly processors?: number
  /** Called with the groups before they are created, so that a janitor can find them. */
  readonly announce?: (folders: readonly string[]) => Promise<void>
  readonly files?: CgroupFiles
  /** Texts of `/proc/self/cgroup` and `/proc/self/mountinfo`. */
  readonly layout?: { readonly cgroup: string; readonly mountinfo: string }
}

/** The name of the groups of an owner. */
export function groupName(owner: string): string {
  return `gantry-${owner}`
}

/** The group of this process in every usable hierarchy; the parent of the child group it moved to (see openTree). */
export async function ownTrees(layout: CgroupsOptions['layout']): Promise<CgroupTree[]> {
  const { cgroup, mountinfo } = layout ?? {
    cgroup: await readFile('/proc/self/cgroup', 'utf8'),
    mountinfo: await readFile('/proc/self/mountinfo', 'utf8'),
  }
  return readLayout(cgroup, mountinfo)
    .filter(({ version, controllers }) => version === 2 || usedControllers.some((one) => controllers.includes(one)))
    .map((tree) => (isAside(tree.folder) ? { ...tree, folder: dirname(tree.folder) } : tree))
}

function isAside(folder: string): boolean {
  const name = basename(folder)
  return name.startsWith('gantry-') && name.endsWith('-self')
}

/** The remedy for missing controllers. */
export const cgroupRemedy =
  'Run as root, or start in a control group that is delegated to this process: `systemd-run --user --scope -p Delegate=yes …`.'

/** Detects by trial which control groups can be created; never rejects because one cannot. */
export async function createCgroups(options: CgroupsOptions): Promise<Cgroups> {
  const { owner, processors = 1, files = kernelFiles } = options
  const trees = await ownTrees(options.layout)
  const name = groupName(owner)
  await options.announce?.(trees.flatMap(({ folder }) => [join(folder, name), join(folder, `${name}-self`)]))
  const missing: string[] = []
  const opened: OpenTree[] = []
  for (const tree of trees) {
    await openTree(files, tree, name).then(
      (open) => opened.push(open),
      (error: unknown) => missing.push(unopened(tree, error)),
    )
  }
  missing.push(...opened.flatMap(({ lacks }) => lacks ?? []))
  const held = await heldBy(files, opened, processors, missing)
  const killing = opened.find(({ version }) => version === 2)
  const kills = killing !== undefined && (await files.has(join(killing.parent, 'cgroup.kill')))
  return {
    enforced: enforcedBy(held),
    missing: [...missing, ...unheld(held, missing)],
    parents: opened.map(({ parent }) => parent),
    plan(id, limits) {
      const shares = held.map((one) => shareOf(one, join(one.tree.parent, id), limits, processors))
      return {
        folders: opened.map(({ parent }) => join(parent, id)),
        parents: opened.map(({ parent }) => parent),
        settings: shares.flatMap(({ settings }) => settings),
        ...(kills ? { killFile: join(killing.parent, id, 'cgroup.kill') } : {}),
        figures: Object.assign({}, ...shares.map(({ figures }) => figures)),
        watches: shares.flatMap(({ watches }) => watches),
      }
    },
    async close() {
      for (const { parent, restore } of opened) {
        await removeCgroup(files, parent)
        await restore().catch(() => undefined)
      }
    },
  }
}

/** Tests each controller on a group that is then removed, and returns those that work. */
async function heldBy(
  files: CgroupFiles,
  opened: readonly OpenTree[],
  processors: number,
  missing: string[],
): Promise<Held[]> {
  const counted = opened.some(({ controllers }) => controllers.includes('cpuacct'))
  const held: Held[] = []
  for (const tree of opened) {
    const present = await presentIn(files, tree.parent)
    const time = tree.version === 2 && !counted ? ['cpu.stat' as const] : []
    for (const controller of [...tree.controllers, ...time]) {
      const one: Held = { tree, controller, present }
      await tryOut(files, one, processors).then(
        () => held.push(one),
        (error: unknown) => missing.push(`${nameOf(one)} cannot be used in ${tree.parent} (${codeOf(error)}).`),
      )
    }
  }
  return held
}

async function tryOut(files: CgroupFiles, held: Held, processors: number): Promise<void> {
  const trial = join(held.tree.parent, 'trial')
  const { settings, figures, watches } = shareOf(held, trial, trialLimits, processors)
  await files.make(trial)
  try {
    for (const [path, text] of settings) await files.write(path, text)
    for (const { file } of [...Object.values(figures), ...watches]) await files.read(file)
  } finally {
    await files.remove(trial)
  }
}

const trialLimits: SandboxLimits = {
  wallMs: 1_000,
  cpuMs: 1_000,
  memoryBytes: 67_108_864,
  pids: 16,
  diskBytes: 1,
  stdoutBytes: 1,
  stderrBytes: 1,
}

const limitOf = { memory: 'memoryBytes', pids: 'pids', cpuacct: 'cpuMs', 'cpu.stat': 'cpuMs', cpu: undefined } as const

function enforcedBy(held: readonly Held[]): Cgroups['enforced'] {
  return Object.fromEntries(
    held.flatMap((one) => {
      const limit = limitOf[one.controller]
      return limit === undefined ? [] : [[limit, nameOf(one)]]
    }),
  )
}

function nameOf({ tree, controller }: Held): string {
  return `cgroup v${tree.version} ${controller}`
}

function unopened({ version, controllers, folder }: CgroupTree, error: unknown): string {
  const what = version === 1 ? `cgroup v1 ${controllers.join(',')}` : 'cgroup v2'
  return `${what}: no group can be created in ${folder} (${codeOf(error) ?? 'unknown error'}).`
}

/** A controller that is not offered causes no error, so its absence is reported here. */
function unheld(held: readonly Held[], missing: readonly string[]): string[] {
  if (missing.length > 0) return []
  const absent = (['memory', 'pids'] as const).filter((name) => !held.some(({ controller }) => controller === name))
  return absent.map((name) => `No control group of this process has the controller ${name}.`)
}
