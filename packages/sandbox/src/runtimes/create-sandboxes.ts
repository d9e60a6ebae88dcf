import type { Isolation } from '@gantry/contract'
import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import type { RuntimeInfo } from '@gantry/core/internal/runtimes/runtimes'
import { createProcessRuntime } from '../drivers/process.ts'
import { createUnsafeHostRuntime } from '../drivers/unsafe-host.ts'
import { createLanguages } from '../languages/languages.ts'
import { createSessions } from '../sessions/sessions.ts'
import { createRuntimes } from './create-runtimes.ts'
import { checkSandboxOptions, type SandboxOptions, type SandboxRuntimes } from './options.ts'

/**
 * The runtimes `process` and `unsafe_host`, with those of `use`. Nothing is started before the first request.
 * Throws CONFIG_INVALID with the path of each wrong option.
 */
export function createSandboxes(options: SandboxOptions = {}): SandboxRuntimes {
  checkSandboxOptions(options)
  const { use = [], root, rootfs, readOnlyFolders, processors, languages: rows, sessions: times, ...rest } = options
  const languages = createLanguages(rows)
  const place = root === undefined ? {} : { root }
  const own: readonly Runtime[] = [
    createProcessRuntime({
      ...place,
      languages,
      ...(rootfs === undefined ? {} : { rootfs }),
      ...(readOnlyFolders === undefined ? {} : { readOnlyFolders }),
      ...(processors === undefined ? {} : { processors }),
    }),
    createUnsafeHostRuntime({ ...place, languages }),
  ]
  const replaced = new Set(use.map(({ kind }) => kind))
  const runtimes = [...use, ...own.filter(({ kind }) => !replaced.has(kind))]
  const door = createRuntimes({ ...rest, runtimes })
  const { timing } = rest
  const sessions = createSessions(door, { ...times, ...(timing === undefined ? {} : { timing }) })
  const close = async (): Promise<void> => {
    await sessions.closeAll()
    await door.close()
  }
  const list = async (signal: AbortSignal): Promise<readonly RuntimeInfo[]> => {
    const present = await door.list(signal)
    return [...present, ...runtimesWithoutDriver(present)]
  }
  return { ...door, list, languages, sessions, close }
}

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
function runtimesWithoutDriver(present: readonly RuntimeInfo[]): readonly RuntimeInfo[] {
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
