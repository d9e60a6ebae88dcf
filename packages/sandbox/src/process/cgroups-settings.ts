import { join } from 'node:path'
import type { SandboxLimits } from '@gantry/contract'
import type { CgroupPlan } from '../launcher/launch-plan.ts'
import type { CgroupFiles } from './cgroups-files.ts'
import type { Controller, OpenTree } from './cgroups-open.ts'

/** What one controller adds to the plan of one sandbox. */
export type CgroupShare = Pick<CgroupPlan, 'settings' | 'figures' | 'watches'>

/** Files that are not on every kernel, by name, as far as they are here. */
export type Present = ReadonlySet<string>

/** One controller of one tree, with the kernel's optional files that it has here. */
export interface Held {
  readonly tree: OpenTree
  /** `cpu.stat` stands for processor time, which version 2 counts in every group. */
  readonly controller: Controller | 'cpu.stat'
  readonly present: Present
}

/** The init inside and bubblewrap, which waits for it outside, are in the group too. */
const ownProcesses = 2
const periodUs = 100_000

const tcpLimit = 'memory.kmem.tcp.limit_in_bytes'
const optional = ['memory.memsw.limit_in_bytes', tcpLimit, 'memory.swap.max', 'memory.oom.group', 'memory.peak']

export async function presentIn(files: CgroupFiles, parent: string): Promise<Present> {
  const found = await Promise.all(optional.map((name) => files.has(join(parent, name))))
  return new Set(optional.filter((_, index) => found[index]))
}

/** The share of a controller in the plan for the group `folder`. */
export function shareOf(held: Held, folder: string, limits: SandboxLimits, processors: number): CgroupShare {
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

/** How many processors a sandbox has at most at a time; how long is another matter. */
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
      // The limit of memory and swap together may not be under that of memory alone, hence the order.
      present.has('memory.memsw.limit_in_bytes')
        ? [at('memory.memsw.limit_in_bytes'), bytes]
        : [at('memory.swappiness'), '0'],
      // Buffers of sockets count for nothing here unless they have a limit of their own.
      ...(present.has(tcpLimit) ? [[at(tcpLimit), String(Math.ceil(memoryBytes / 4))] as const] : []),
    ],
    figures: { memoryPeakBytes: { file: at('memory.max_usage_in_bytes') } },
    watches: [
      { limit: 'memoryBytes', file: at('memory.oom_control'), key: 'oom_kill', atLeast: 1 },
      // That limit is soft: each socket gets its least buffer all the same, so that reaching it ends the run.
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
