import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { PackageDigests, PackageKind, Refusal, Runtime, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { createLanguages, type Languages, languagesIn } from '../languages/languages.ts'
import { launcherBinary } from '../launcher/binary.ts'
import { basicEnvironment, type Inside, watchOf } from '../launcher/launch-job.ts'
import { type OpenLayers, openLayers, type PlacedLayer, placeLayer } from '../packages/open-layers.ts'
import { configuredKinds, type PackageOptions } from '../packages/package-lists.ts'
import { egressEnvironment } from '../process/egress-inside.ts'
import { createPlanner, type Planned, type Planner } from '../process/planner.ts'
import { layerPlaces } from '../process/root-file-system.ts'
import type { SandboxRoot } from '../process/sandbox-root.ts'
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
  /** Packages that programs find, from layers that `gantry runtime build packages` built. */
  readonly packages?: PackageOptions
}

/**
 * Runs programs in their own namespaces: bubblewrap under an unprivileged uid, a seccomp filter, and control groups.
 * The launcher enforces the wall limit and removes everything, also when this process dies.
 * - Concurrency: any number of sandboxes. Use it from the main thread, because they end with the thread that started them.
 * - Ownership: `close` ends all sandboxes and removes what this process created on the host.
 */
export function createProcessRuntime(options: ProcessOptions = {}): Runtime {
  const { languages = createLanguages(), rootfs = '/', packages = {} } = options
  return launcherRuntime({
    kind: 'process',
    isolation: 'namespaces',
    cost: 10,
    guarded: true,
    packages: configuredKinds(packages),
    found: languagesIn(languages, (path) => existsSync(join(rootfs, path))),
    prepare: (signal) => prepare(options, languages, signal),
  })
}

async function prepare(options: ProcessOptions, languages: Languages, signal: AbortSignal): Promise<PreparedHost> {
  const { path: launcher } = await launcherBinary()
  const { root, rootfs, readOnlyFolders, processors } = options
  const opened = await openLayers(options.packages ?? {}, rootfs ?? '/')
  const placed: PlacedLayer[] = []
  const release = async (): Promise<void> => {
    await Promise.all([opened, ...placed].map((each) => each.release()))
  }
  const placeLayers = async (home: SandboxRoot): Promise<ReadonlyMap<PackageKind, string>> => {
    const folders = new Map<PackageKind, string>()
    for (const [kind, layer] of opened.layers) {
      const place = await placeLayer(layer, home)
      placed.push(place)
      folders.set(kind, place.folder)
    }
    return folders
  }
  const planner = await createPlanner({
    placeLayers,
    launcher,
    node: process.execPath,
    drivers: join(dirname(dirname(launcher)), 'drivers'),
    signal,
    ...(root === undefined ? {} : { sandboxRoot: root }),
    ...(rootfs === undefined ? {} : { rootfs }),
    ...(readOnlyFolders === undefined ? {} : { readOnlyFolders }),
    ...(processors === undefined ? {} : { processors }),
  }).catch(async (error: unknown) => {
    await release()
    throw error
  })
  const outdated = Promise.withResolvers<void>()
  const missing = ({ packages = [] }: SandboxSpec): Refusal | undefined =>
    packages.map((kind) => opened.missing.get(kind)).find((refusal) => refusal !== undefined)
  const inside = (spec: SandboxSpec, planned: Planned): Inside =>
    insideOf(spec, planned, planner, { languages, processors: processors ?? 1 })
  return launcherHost({
    ...planner,
    launcher,
    ...(rootfs === undefined ? {} : { rootfs }),
    inside,
    outdated: outdated.promise,
    packages: (spec) => digestsOf(spec, opened),
    plan(id, spec) {
      const refusal = missing(spec)
      if (refusal === undefined) return planner.plan(id, spec)
      throw new ToolError('RUNTIME_UNAVAILABLE', `${refusal.reason} ${refusal.remedy}`, { retryable: false })
    },
    refuses(spec) {
      const refusal = missing(spec)
      if (refusal === undefined || !opened.changed()) return refusal ?? planner.refuses(spec)
      // Perhaps they were built since: the next sandbox looks again.
      outdated.resolve()
      return planner.refuses(spec)
    },
    async close() {
      await planner.close()
      await release()
    },
  })
}

function digestsOf({ packages = [] }: SandboxSpec, { layers }: OpenLayers): PackageDigests | undefined {
  const digests = packages.flatMap((kind) => {
    const layer = layers.get(kind)
    return layer === undefined ? [] : [[kind, `sha256:${layer.digest}`] as const]
  })
  return digests.length === 0 ? undefined : Object.fromEntries(digests)
}

/**
 * Python looks for packages of its user there, after its own library; Node.js needs no variable. Caches of packages, such as
 * the fonts of matplotlib, are no files of the program; and numpy would start a thread for each processor of the host.
 */
function packagesEnvironment({ packages = [] }: SandboxSpec, processors: number): { readonly [name: string]: string } {
  if (!packages.includes('python')) return {}
  const threads = String(Math.max(1, Math.floor(processors)))
  return { PYTHONUSERBASE: layerPlaces.python, XDG_CACHE_HOME: '/work/.gantry/tmp', OMP_NUM_THREADS: threads }
}

function insideOf(
  spec: SandboxSpec,
  { plan }: Planned,
  { enforced }: Planner,
  { languages, processors }: { readonly languages: Languages; readonly processors: number },
): Inside {
  return {
    workspace: '/work',
    node: '/gantry/node',
    drivers: '/gantry/drivers',
    languages,
    env: {
      ...basicEnvironment('/work'),
      ...packagesEnvironment(spec, processors),
      ...(spec.network === 'none' ? {} : egressEnvironment(spec.network.allow)),
    },
    // A sandbox without its own uid shares the process count of this user, unless it is counted in its user namespace.
    // Above the limit, because the watch must see it exceeded; EAGAIN alone would leave a fork bomb running.
    rlimits: plan.rlimits.nproc === undefined ? { nproc: spec.limits.pids + 16 } : {},
    watch: watchOf(spec, enforced),
  }
}
