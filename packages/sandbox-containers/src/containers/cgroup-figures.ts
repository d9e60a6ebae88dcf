import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SandboxLimit, SandboxLimits } from '@gantry/contract'
import { codeOf } from '@gantry/core/internal/files/private-file'

/** Figures of a container's control groups at one moment, and the limits that they show to be hit. */
export interface CgroupFigures {
  readonly figures: { readonly [name: string]: number }
  readonly hits: readonly SandboxLimit[]
}

interface Source {
  readonly file: string
  /** A line of a `key value` file; absent for a plain number. */
  readonly key?: string
}

/** Where the kernel keeps the figures of one container. */
export interface CgroupSources {
  readonly version: 1 | 2
  readonly cpuNs?: Source & { readonly factor: number }
  readonly memoryPeakBytes?: Source
  /** What is in use, with the part of it that is a cache of files and can be dropped. */
  readonly memoryBytes?: { readonly used: Source; readonly cache: Source }
  /** Each counts refusals of memory; more than none is a hit. */
  readonly outOfMemory: readonly Source[]
  readonly pidsRefused?: Source
  /** Where a limit for the buffers of sockets is written, which version 1 does not count as memory. */
  readonly socketBuffers?: string
}

/** Where the kernel shows processes and control groups. */
interface KernelFolders {
  readonly processes: string
  readonly groups: string
}

const kernelFolders: KernelFolders = { processes: '/proc', groups: '/sys/fs/cgroup' }

/** Finds the control groups of a process on this machine; undefined when it is gone or they are not mounted here. */
export function cgroupSources(pid: number, kernel: KernelFolders = kernelFolders): CgroupSources | undefined {
  try {
    const lines = readFileSync(join(kernel.processes, String(pid), 'cgroup'), 'utf8')
      .trim()
      .split('\n')
    const groups = new Map(lines.map((line) => groupOf(line, kernel.groups)))
    const unified = groups.get('')
    const memory = groups.get('memory')
    if (memory !== undefined) return existsSync(memory) ? firstVersion(groups, memory) : undefined
    return unified !== undefined && existsSync(unified) ? secondVersion(unified) : undefined
  } catch {
    return undefined
  }
}

/** `4:memory:/docker/abc` is the group `/sys/fs/cgroup/memory/docker/abc`; an empty controller is version 2. */
function groupOf(line: string, root: string): [controller: string, folder: string] {
  const [, controllers = '', path = ''] = /^\d+:([^:]*):(.*)$/.exec(line) ?? []
  return [controllers.split(',')[0] ?? '', join(root, controllers, path)]
}

function firstVersion(groups: ReadonlyMap<string, string>, memory: string): CgroupSources {
  const cpuacct = groups.get('cpuacct') ?? groups.get('cpu')
  const pids = groups.get('pids')
  return {
    version: 1,
    ...(cpuacct === undefined ? {} : { cpuNs: { file: join(cpuacct, 'cpuacct.usage'), factor: 1 } }),
    memoryPeakBytes: { file: join(memory, 'memory.max_usage_in_bytes') },
    memoryBytes: {
      used: { file: join(memory, 'memory.usage_in_bytes') },
      cache: { file: join(memory, 'memory.stat'), key: 'total_inactive_file' },
    },
    outOfMemory: [
      { file: join(memory, 'memory.oom_control'), key: 'oom_kill' },
      // The limit of TCP is soft: each socket still gets its smallest buffer, so reaching it is a hit.
      { file: join(memory, 'memory.kmem.tcp.failcnt') },
    ],
    ...(pids === undefined ? {} : { pidsRefused: { file: join(pids, 'pids.events'), key: 'max' } }),
    socketBuffers: join(memory, 'memory.kmem.tcp.limit_in_bytes'),
  }
}

function secondVersion(folder: string): CgroupSources {
  return {
    version: 2,
    cpuNs: { file: join(folder, 'cpu.stat'), key: 'usage_usec', factor: 1_000 },
    memoryPeakBytes: { file: join(folder, 'memory.peak') },
    memoryBytes: {
      used: { file: join(folder, 'memory.current') },
      cache: { file: join(folder, 'memory.stat'), key: 'inactive_file' },
    },
    outOfMemory: [{ file: join(folder, 'memory.events'), key: 'oom_kill' }],
    pidsRefused: { file: join(folder, 'pids.events'), key: 'max' },
  }
}

/**
 * Limits the buffers of sockets to a quarter of the memory, as the `process` runtime does. It is written here, because
 * runc ignores this limit since 1.0.0. Throws when it cannot be written; a group that is gone or does not know it needs none.
 */
export function limitSocketBuffers({ socketBuffers }: CgroupSources, memoryBytes: number): void {
  if (socketBuffers === undefined) return
  try {
    writeFileSync(socketBuffers, String(Math.ceil(memoryBytes / 4)), { flag: 'r+' })
  } catch (error) {
    if (codeOf(error) !== 'ENOENT' && codeOf(error) !== 'ENODEV') throw error
  }
}

/** The processor time that the container has used since its start; undefined when it cannot be read. */
export function readCpuNs({ cpuNs }: CgroupSources): number | undefined {
  return scaled(numberIn(cpuNs), cpuNs?.factor)
}

/** Reads them now; what cannot be read is left out. Processor time counts from `baseNs`, what earlier runs had used. */
export function readFigures(
  sources: CgroupSources,
  { cpuMs }: Pick<SandboxLimits, 'cpuMs'>,
  baseNs = 0,
): CgroupFigures {
  const wholeNs = readCpuNs(sources)
  const cpuNs = wholeNs === undefined ? undefined : Math.max(0, wholeNs - baseNs)
  const memoryPeakBytes = numberIn(sources.memoryPeakBytes)
  const hits: SandboxLimit[] = []
  if (sources.outOfMemory.some((source) => (numberIn(source) ?? 0) > 0)) hits.push('memoryBytes')
  if ((numberIn(sources.pidsRefused) ?? 0) > 0) hits.push('pids')
  if (cpuNs !== undefined && cpuNs >= cpuMs * 1e6) hits.push('cpuMs')
  return {
    figures: {
      ...(cpuNs === undefined ? {} : { cpuNs }),
      ...(memoryPeakBytes === undefined ? {} : { memoryPeakBytes }),
    },
    hits,
  }
}

/** The memory in use now, without the cache of files that the kernel may drop; undefined when it cannot be read. */
export function readMemory({ memoryBytes }: CgroupSources): number | undefined {
  const used = numberIn(memoryBytes?.used)
  return used === undefined ? undefined : Math.max(0, used - (numberIn(memoryBytes?.cache) ?? 0))
}

function scaled(value: number | undefined, factor = 1): number | undefined {
  return value === undefined ? undefined : value * factor
}

/** These files are made by the kernel as they are read, and take microseconds: no reason to leave the thread. */
function numberIn(source: Source | undefined): number | undefined {
  if (source === undefined) return undefined
  try {
    const text = readFileSync(source.file, 'latin1')
    const { key } = source
    const found =
      key === undefined
        ? text.trim()
        : text
            .split('\n')
            .find((line) => line.startsWith(`${key} `))
            ?.slice(key.length + 1)
    const value = Number(found)
    return found === undefined || !Number.isFinite(value) ? undefined : value
  } catch {
    return undefined
  }
}
