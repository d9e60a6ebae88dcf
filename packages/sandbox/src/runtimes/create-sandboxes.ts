import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import type { RuntimeInfo, Runtimes, RuntimeVerdict } from '@gantry/core/internal/runtimes/runtimes'
import { createProcessRuntime } from '../drivers/process.ts'
import { createUnsafeHostRuntime } from '../drivers/unsafe-host.ts'
import { createLanguages } from '../languages/languages.ts'
import { configuredKinds, type PackageOptions } from '../packages/package-lists.ts'
import { knownKinds } from '../selection/select.ts'
import { createSessions } from '../sessions/sessions.ts'
import { createRuntimes } from './create-runtimes.ts'
import { checkSandboxOptions, type SandboxOptions, type SandboxRuntimes } from './options.ts'

/**
 * Creates the runtimes `process` and `unsafe_host`, and adds those of `use`. Nothing starts before the first request.
 * Throws CONFIG_INVALID with the path of each invalid option.
 */
export function createSandboxes(options: SandboxOptions = {}): SandboxRuntimes {
  checkSandboxOptions(options)
  const { use = [], root, rootfs, readOnlyFolders, processors, languages: rows, sessions: times, ...others } = options
  const { python, node, packagesFolder, ...rest } = others
  const packages: PackageOptions = {
    ...(python === undefined ? {} : { python }),
    ...(node === undefined ? {} : { node }),
    ...(packagesFolder === undefined ? {} : { packagesFolder }),
  }
  const languages = createLanguages(rows)
  const place = root === undefined ? {} : { root }
  const own: readonly Runtime[] = [
    createProcessRuntime({
      ...place,
      languages,
      packages,
      ...(rootfs === undefined ? {} : { rootfs }),
      ...(readOnlyFolders === undefined ? {} : { readOnlyFolders }),
      ...(processors === undefined ? {} : { processors }),
    }),
    createUnsafeHostRuntime({ ...place, languages }),
  ]
  const replaced = new Set(use.map(({ kind }) => kind))
  const runtimes = [...use, ...own.filter(({ kind }) => !replaced.has(kind))]
  const all = createRuntimes({ ...rest, runtimes, packages: configuredKinds(packages) })
  const { timing } = rest
  const sessions = createSessions(all, { ...times, ...(timing === undefined ? {} : { timing }) })
  const close = async (): Promise<void> => {
    await sessions.closeAll()
    await all.close()
  }
  const list = async (signal: AbortSignal): Promise<readonly RuntimeInfo[]> => {
    const present = await all.list(signal)
    return [...present, ...absentRuntimes(present)]
  }
  const explain: Runtimes['explain'] = async (program, confinement, signal) => {
    const choice = await all.explain(program, confinement, signal)
    return { ...choice, runtimes: [...choice.runtimes, ...absentVerdicts(choice.runtimes)] }
  }
  return { ...all, list, explain, languages, sessions, close }
}

/** The kinds that are not there never serve; `explain` names them with what would create them. */
function absentVerdicts(present: readonly RuntimeVerdict[]): readonly RuntimeVerdict[] {
  const there = new Set(present.map(({ kind }) => kind))
  return knownKinds
    .filter(({ kind }) => !there.has(kind))
    .map(({ kind, isolation, reason, remedy }) => ({ kind, isolation, verdict: 'refused', reason, remedy }))
}

/** The kinds that are not there, as `gantry doctor` lists them; a call that names one is refused with the same reason. */
function absentRuntimes(present: readonly RuntimeInfo[]): readonly RuntimeInfo[] {
  const there = new Set(present.map(({ kind }) => kind))
  return knownKinds
    .filter(({ kind }) => !there.has(kind))
    .map((known) => ({
      ...known,
      available: false,
      version: null,
      startMs: null,
      limits: {},
      languages: [],
      attacks: [],
      breached: [],
    }))
}
