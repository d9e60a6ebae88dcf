import {
  egressTarget,
  maskedDevices,
  maskedPaths,
  memoryMounts,
  oomScore,
  readonlyPaths,
  sharedMemoryBytes,
  ulimitsOf,
} from './container-policy.ts'
import { seccompProfiles } from './container-seccomp.ts'
import type { ContainerSpec } from './engine.ts'

/** The kernel's period of processor quotas, in microseconds. */
const cpuPeriod = 100_000
/** Character devices that an OCI runtime makes in every container: null, zero, full, random, urandom, tty. */
const devices = [
  [1, 3],
  [1, 5],
  [1, 7],
  [1, 8],
  [1, 9],
  [5, 0],
] as const

/**
 * The one policy of all containers as an OCI runtime configuration, for engines that add none of their own. Nothing here
 * comes from the arguments of a call but numbers.
 */
export function ociSpec(spec: ContainerSpec, cgroupsPath: string): object {
  const { uid, memoryBytes } = spec
  return {
    ociVersion: '1.0.2',
    hostname: 'sandbox',
    root: { path: 'rootfs', readonly: true },
    process: {
      terminal: false,
      user: { uid, gid: uid, additionalGids: [] },
      args: spec.command,
      env: [],
      cwd: '/',
      capabilities: { bounding: [], effective: [], inheritable: [], permitted: [], ambient: [] },
      noNewPrivileges: true,
      oomScoreAdj: oomScore,
      rlimits: Object.entries(ulimitsOf(spec)).map(([name, value]) => ({
        type: `RLIMIT_${name.toUpperCase()}`,
        hard: Math.floor(value),
        soft: Math.floor(value),
      })),
    },
    mounts: mountsOf(spec),
    linux: {
      cgroupsPath,
      namespaces: ['pid', 'ipc', 'uts', 'mount', 'network'].map((type) => ({ type })),
      maskedPaths: [...maskedPaths, ...maskedDevices],
      readonlyPaths,
      seccomp: seccompProfiles[spec.filter],
      resources: {
        devices: [
          { allow: false, access: 'rwm' },
          ...devices.map(([major, minor]) => ({ allow: true, type: 'c', major, minor, access: 'rw' })),
        ],
        memory: { limit: memoryBytes, swap: memoryBytes },
        cpu: { period: cpuPeriod, quota: Math.round(spec.processors * cpuPeriod) },
        pids: { limit: spec.pids },
      },
    },
  }
}

function mountsOf(spec: ContainerSpec): readonly object[] {
  const inMemory = (destination: string, options: readonly string[]): object => {
    return { destination, type: 'tmpfs', source: 'tmpfs', options }
  }
  const { egressFolder } = spec
  return [
    { destination: '/proc', type: 'proc', source: 'proc', options: ['nosuid', 'noexec', 'nodev'] },
    inMemory('/dev', ['nosuid', 'noexec', 'strictatime', 'mode=755', 'size=65536']),
    inMemory('/dev/shm', ['nosuid', 'noexec', 'nodev', 'mode=1777', `size=${sharedMemoryBytes(spec)}`]),
    ...memoryMounts(spec).map(({ path, options }) => inMemory(path, options)),
    ...(egressFolder === undefined
      ? []
      : [
          {
            destination: egressTarget,
            type: 'bind',
            source: egressFolder,
            options: ['rbind', 'ro', 'rprivate', 'nosuid', 'nodev', 'noexec'],
          },
        ]),
  ]
}
