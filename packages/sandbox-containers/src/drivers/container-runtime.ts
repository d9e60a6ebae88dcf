import type { Isolation } from '@gantry/contract'
import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import { launcherRuntime } from '@gantry/sandbox/internal/drivers/launcher-runtime'
import { createLanguages, type Languages } from '@gantry/sandbox/internal/languages/languages'
import {
  type ContainerTraits,
  containerIdleBytes,
  type OpenEngine,
  prepareContainers,
} from '../containers/container-host.ts'
import { defaultImage } from '../images/image-name.ts'

/** What sandboxes in containers are made of, on every engine. */
export interface ContainerRuntimeOptions {
  /** By name or digest; the one that `gantry runtime build` makes when absent. */
  readonly image?: string
  /** How many processors a sandbox may use at a time; one when absent. */
  readonly processors?: number
  /** Whether sandboxes that wait in a pool are paused; false when absent, because paused ones outlive a killed owner. */
  readonly pause?: boolean
  /** Where folders of egress proxies are; a private folder under the system's temporary one when absent. */
  readonly root?: string
  readonly languages?: Languages
}

/** A kind of runtime: how its containers isolate, and how its engine is opened. */
interface ContainerKind extends ContainerTraits {
  readonly kind: string
  readonly isolation: Isolation
  readonly cost: number
  readonly open: OpenEngine
}

/** A runtime whose sandboxes are containers; the engine is reached with the first probe or sandbox. */
export function containerRuntime(of: ContainerKind, options: ContainerRuntimeOptions): Runtime {
  const { kind, isolation, cost, runtime, hasOwnKernel, initCommand, uidProcesses, open } = of
  const { languages = createLanguages(), image = defaultImage, processors = 1, pause = false, root } = options
  return launcherRuntime({
    kind,
    isolation,
    cost,
    guarded: true,
    idleBytes: containerIdleBytes({ hasOwnKernel }),
    // Unknown until the image is looked at: nothing is refused before the probe.
    found: { available: [], waiting: languages.all.map(({ name }) => name), asking: ['python'], missing: new Map() },
    prepare: (signal) =>
      prepareContainers({
        kind,
        hasOwnKernel,
        ...(runtime === undefined ? {} : { runtime }),
        ...(initCommand === undefined ? {} : { initCommand }),
        ...(uidProcesses === undefined ? {} : { uidProcesses }),
        languages,
        image,
        processors,
        pause,
        signal,
        ...(root === undefined ? {} : { root }),
        open,
      }),
  })
}
