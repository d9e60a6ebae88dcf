import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import { createWasmRuntime } from '@gantry/sandbox-wasm/internal/wasm'
import { createLanguages } from './languages.ts'
import { createProcessRuntime } from './process.ts'
import { createRuntimes } from './runtimes.ts'
import { checkSandboxOptions, type SandboxOptions, type SandboxRuntimes } from './sandbox-options.ts'
import { createSessions } from './sessions.ts'
import { createUnsafeHostRuntime } from './unsafe-host.ts'

/**
 * Every runtime that works without a server, behind one door. Nothing is started before the first request.
 * Throws CONFIG_INVALID with the path of each wrong option.
 */
export function createSandboxes(options: SandboxOptions = {}): SandboxRuntimes {
  checkSandboxOptions(options)
  const { use = [], root, rootfs, readOnlyFolders, processors, languages: rows, sessions: times, ...rest } = options
  const languages = createLanguages(rows)
  const place = root === undefined ? {} : { root }
  const own: readonly Runtime[] = [
    createWasmRuntime(),
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
  const runtimes = [...own.filter(({ kind }) => !replaced.has(kind)), ...use]
  const door = createRuntimes({ ...rest, runtimes })
  const { timing } = rest
  const sessions = createSessions(door, { ...times, ...(timing === undefined ? {} : { timing }) })
  const close = async (): Promise<void> => {
    await sessions.closeAll()
    await door.close()
  }
  return { ...door, languages, sessions, close }
}
