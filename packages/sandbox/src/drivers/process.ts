import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Runtime, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { createLanguages, type Languages, languagesIn } from '../languages/languages.ts'
import { launcherBinary } from '../launcher/binary.ts'
import { basicEnvironment, type Inside, watchOf } from '../launcher/launch-job.ts'
import { egressEnvironment } from '../process/egress-inside.ts'
import { createPlanner, type Planned, type Planner } from '../process/planner.ts'
import { launcherHost, launcherRuntime, type PreparedHost } from './launcher-runtime.ts'

export interface ProcessOptions {
  /** Host folder for sandbox files; a private folder under the system's temporary folder when absent. */
  readonly root?: string
  /** A folder with a root file system (`usr`, `bin`, `etc` …) that replaces the host's programs. */
  readonly rootfs?: string
  /** Further host folders, mounted read-only under the same path. */
  readonly readOnlyFolders?: readonly string[]
  /** Processors that a sandbox may use at a time; 1 when absent. */
  readonly processors?: number
  /** The built-in languages when absent. */
  readonly languages?: Languages
}

/**
 * Runs programs in their own namespaces: bubblewrap under an unprivileged uid, a seccomp filter, and control groups.
 * The launcher enforces the wall limit and removes everything, also when this process dies.
 * - Concurrency: any number of sandboxes. Use it from the main thread, because they end with the thread that started them.
 * - Ownership: `close` ends all sandboxes and removes what this process created on the host.
 */
export function createProcessRuntime(options: ProcessOptions = {}): Runtime {
  const { languages = createLanguages(), rootfs = '/' } = options
  return launcherRuntime({
    kind: 'process',
    isolation: 'namespaces',
    cost: 10,
    guarded: true,
    found: languagesIn(languages, (path) => existsSync(join(rootfs, path))),
    prepare: (signal) => prepare(options, languages, signal),
  })
}

async function prepare(options: ProcessOptions, languages: Languages, signal: AbortSignal): Promise<PreparedHost> {
  const { path: launcher } = await launcherBinary()
  const { root, rootfs, readOnlyFolders, processors } = options
  const planner = await createPlanner({
    launcher,
    node: process.execPath,
    drivers: join(dirname(dirname(launcher)), 'drivers'),
    signal,
    ...(root === undefined ? {} : { sandboxRoot: root }),
    ...(rootfs === undefined ? {} : { rootfs }),
    ...(readOnlyFolders === undefined ? {} : { readOnlyFolders }),
    ...(processors === undefined ? {} : { processors }),
  })
  const inside = (spec: SandboxSpec, planned: Planned): Inside => insideOf(spec, planned, planner, languages)
  return launcherHost({ ...planner, launcher, ...(rootfs === undefined ? {} : { rootfs }), inside })
}

function insideOf(spec: SandboxSpec, { plan }: Planned, { enforced }: Planner, languages: Languages): Inside {
  return {
    workspace: '/work',
    node: '/gantry/node',
    drivers: '/gantry/drivers',
    languages,
    env: { ...basicEnvironment('/work'), ...(spec.network === 'none' ? {} : egressEnvironment(spec.network.allow)) },
    // A sandbox without its own uid shares the process count of this user, unless it is counted in its user namespace.
    // Above the limit, because the watch must see it exceeded; EAGAIN alone would leave a fork bomb running.
    rlimits: plan.rlimits.nproc === undefined ? { nproc: spec.limits.pids + 16 } : {},
    watch: watchOf(spec, enforced),
  }
}
