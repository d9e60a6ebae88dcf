import type { ContainerSpec } from './engine.ts'

/** The label by which containers are found again, also after their owner died. */
export const ownerLabel = 'dev.gantry.owner'
const sandboxLabel = 'dev.gantry.sandbox'

export function labelsOf({ owner, id }: ContainerSpec): { readonly [name: string]: string } {
  return { [ownerLabel]: owner, [sandboxLabel]: id }
}

/**
 * What tells a program about the host: its kernel, its boot options, its hardware, its log; `/sys` as a whole. What is not
 * there is left alone by the engine.
 */
export const maskedPaths = [
  '/sys',
  ...[
    'acpi',
    'asound',
    'buddyinfo',
    'cgroups',
    'cmdline',
    'config.gz',
    'consoles',
    'crypto',
    'devices',
    'diskstats',
    'dma',
  ],
  ...[
    'driver',
    'execdomains',
    'fb',
    'interrupts',
    'iomem',
    'ioports',
    'kallsyms',
    'kcore',
    'key-users',
    'keys',
    'kmsg',
  ],
  ...['kpagecgroup', 'kpagecount', 'kpageflags', 'latency_stats', 'locks', 'mdstat', 'misc', 'modules', 'mtrr'],
  ...['pagetypeinfo', 'partitions', 'pressure', 'sched_debug', 'schedstat', 'scsi', 'slabinfo', 'softirqs', 'swaps'],
  ...['timer_list', 'timer_stats', 'tty', 'vmallocinfo', 'zoneinfo'],
].map((path) => (path.startsWith('/') ? path : `/proc/${path}`))
/** Covered by the null device, because the OCI runtime makes it in every container. */
export const maskedDevices = ['/dev/tty']
export const readonlyPaths = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger']

/** The first to be killed when the machine itself is out of memory. */
export const oomScore = 1_000
/** Where the folder of the egress proxy is in a container. */
export const egressTarget = '/gantry/egress'

/** A file system in memory, with the options of `mount`. */
export interface MemoryMount {
  readonly path: string
  readonly options: readonly string[]
}

/** Everything in a container that can be written to, and what covers pseudoterminals. */
export function memoryMounts({ uid, diskBytes, hasOwnKernel }: ContainerSpec): readonly MemoryMount[] {
  const writable = ['rw', 'exec', 'nosuid', 'nodev', `size=${Math.floor(diskBytes)}`]
  return [
    // In place of the engine's pseudoterminals.
    { path: '/dev/pts', options: ['ro', 'noexec', 'nosuid', 'nodev', 'size=4096', 'mode=0755'] },
    { path: '/work', options: [...writable, 'mode=0700', `uid=${uid}`, `gid=${uid}`] },
    // In the image it is a link into the workspace, which gVisor covers by a tmpfs of its own unless it is given one.
    ...(hasOwnKernel ? [{ path: '/tmp', options: [...writable, 'mode=1777'] }] : []),
  ]
}

export function sharedMemoryBytes({ diskBytes, memoryBytes }: ContainerSpec): number {
  return Math.max(65_536, Math.min(diskBytes, memoryBytes, 64 * 2 ** 20))
}

/** What no control group counts. Not 0 for core: at 1 the kernel also gives up a dump that it would pipe to a program of the host. */
export function ulimitsOf({ openFiles, diskBytes, cpuSeconds }: ContainerSpec): { readonly [name: string]: number } {
  return {
    core: 1,
    ...(cpuSeconds === undefined ? {} : { cpu: cpuSeconds }),
    nofile: openFiles,
    fsize: diskBytes,
    memlock: 65_536,
    msgqueue: 0,
    sigpending: 1_024,
    rtprio: 0,
    nice: 0,
  }
}
