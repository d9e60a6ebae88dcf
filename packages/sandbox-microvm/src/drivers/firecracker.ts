import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import { launcherRuntime, processIdleBytes } from '@gantry/sandbox/internal/drivers/launcher-runtime'
import { createLanguages, type Languages } from '@gantry/sandbox/internal/languages/languages'
import { defaultImage } from '@gantry/sandbox-containers/internal/images/image-name'
import { storeFolder } from '../images/image-store.ts'
import { prepareFirecracker } from '../machines/firecracker-host.ts'

/** How Firecracker is started and what its machines are made of. */
export interface FirecrackerOptions {
  /** The program; `firecracker` on the PATH when absent. Its folder is visible to the jailer. */
  readonly program?: string
  /** The jailer of the same release; `jailer` on the PATH when absent. */
  readonly jailer?: string
  /** By the name of a flavour or by digest; the one that `gantry runtime build` makes when absent. */
  readonly image?: string
  /** Where images are; the folder of QEMU's images when absent. */
  readonly store?: string
  /** How many processors a machine has; one when absent, otherwise an even number of them. */
  readonly processors?: number
  /** Whether machines begin as snapshots of one that waits; true when absent. */
  readonly snapshots?: boolean
  /** Where folders of machines are; a private folder under the system's temporary one when absent. */
  readonly root?: string
  readonly languages?: Languages
}

/** Memory of an idle machine beyond its interpreter: what it changed of its snapshot, and Firecracker. */
const machineBytes = 32 * 2 ** 20

/** Programs in virtual machines of Firecracker, each with a kernel of its own; needs KVM and root. */
export function createFirecrackerRuntime(options: FirecrackerOptions = {}): Runtime {
  const { languages = createLanguages(), image = defaultImage, store = storeFolder(), ...rest } = options
  const { processors = 1, snapshots = true, program, jailer, root } = rest
  return launcherRuntime({
    kind: 'firecracker',
    isolation: 'microvm',
    cost: 110,
    guarded: true,
    idleBytes: (spec) => processIdleBytes(spec) + machineBytes,
    // Unknown until the image is looked at: nothing is refused before the probe.
    found: { available: [], waiting: languages.all.map(({ name }) => name), asking: ['python'], missing: new Map() },
    prepare: (signal) =>
      prepareFirecracker({
        kind: 'firecracker',
        languages,
        image,
        store,
        processors,
        snapshots,
        signal,
        ...(program === undefined ? {} : { program }),
        ...(jailer === undefined ? {} : { jailer }),
        ...(root === undefined ? {} : { root }),
      }),
  })
}
