import type { Isolation } from '@gantry/contract'
import type { RuntimeInfo } from '@gantry/core/internal/runtimes/runtimes'

/** Kinds of runtimes that Gantry names, for which this version brings no driver. */
const kinds: readonly (readonly [kind: string, isolation: Isolation])[] = [
  ['docker', 'container'],
  ['containerd', 'container'],
  ['gvisor', 'kernel'],
  ['kata', 'microvm'],
  ['kubernetes', 'container'],
  ['firecracker', 'microvm'],
  ['qemu', 'microvm'],
  ['remote', 'none'],
  ['proxmox_lxc', 'container'],
  ['temporal', 'none'],
]

/** The kinds without a driver as `gantry doctor` lists them, so that the reason is the same before and at a call. */
export function runtimesWithoutDriver(present: readonly RuntimeInfo[]): readonly RuntimeInfo[] {
  const there = new Set(present.map(({ kind }) => kind))
  return kinds
    .filter(([kind]) => !there.has(kind))
    .map(([kind, isolation]) => ({
      ...{ kind, isolation, available: false, version: null, startMs: null },
      ...{ limits: {}, languages: [], attacks: [], breached: [] },
      reason: `This version has no driver for ${kind}.`,
      remedy: 'Use `process` or `wasm`; a call that names it is refused with RUNTIME_UNAVAILABLE.',
    }))
}
