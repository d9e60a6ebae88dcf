import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Runtime, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { createLanguages, type Languages, languagesIn } from '../languages/languages.ts'
import { launcherBinary } from '../launcher/binary.ts'
import { basicEnvironment, type Inside, watchOf } from '../launcher/launch-job.ts'
import { egressEnvironment } from '../process/egress-inside.ts'
import { createPlanner, type Planned, type Planner } from '../process/planner.ts'
import { launcherRuntime, type PreparedHost } from './launcher-runtime.ts'

export interface ProcessOptions {
  /** Where sandboxes keep what they need on the host; a private folder under the system's temporary one when absent. */
  readonly root?: string
  /** A folder with a system of its own (`usr`, `bin`, `etc` …) instead of the host's programs. */
  readonly rootfs?: string
  /** Further folders of the host, seen read-only under the same path. */
  readonly readOnlyFolders?: readonly string[]
  /** How many processors a sandbox may use at a time; one when absent. */
  readonly processors?: number
  /** The built-in ones when absent. */
  readonly languages?: Languages
}

/**
 * Programs in namespaces of their own, by bubblewrap from an unprivileged uid, under a system call filter and the
 * kernel's control groups. The launcher holds the wall limit and clears everything away, also when this process dies.
 * - Concurrency: any number of sandboxes; use it from the main thread, because they end with the thread that started them.
 * - Ownership: `close` ends them all and removes what this process made on the host.
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
  return { ...planner, launcher, ...(rootfs === undefined ? {} : { rootfs }), inside }
}

function insideOf(spec: SandboxSpec, { plan }: Planned, { enforced }: Planner, languages: Languages): Inside {
  return {
    workspace: '/work',
    node: '/gantry/node',
    drivers: '/gantry/drivers',
    languages,
    env: { ...basicEnvironment('/work'), ...(spec.network === 'none' ? {} : egressEnvironment(spec.network.allow)) },
    // Without a uid of its own a sandbox is counted together with everything else of ours, unless it is counted inside.
    // Above the limit, because the watch must see it passed; the kernel's answer alone would leave a fork bomb running.
    rlimits: plan.rlimits.nproc === undefined ? { nproc: spec.limits.pids + 16 } : {},
    watch: watchOf(spec, enforced),
  }
}
