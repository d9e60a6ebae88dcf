import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import { launcherRuntime, processIdleBytes } from '@gantry/sandbox/internal/drivers/launcher-runtime'
import { createLanguages, type Languages } from '@gantry/sandbox/internal/languages/languages'
import { defaultImage } from '@gantry/sandbox-containers/internal/images/image-name'
import { storeFolder } from '../images/image-store.ts'
import { prepareMachines } from '../machines/machine-host.ts'

/** How QEMU is started and what its machines are made of. */
export interface QemuOptions {
  /** The program; `qemu-system-x86_64` on the PATH when absent. */
  readonly program?: string
  /** By the name of a flavour or by digest; the one that `gantry runtime build` makes when absent. */
  readonly image?: string
  /** Where images are; a cache folder of the system, or of the user, when absent. */
  readonly store?: string
  /** `auto` when absent: KVM where a machine is seen to start with it, and emulation everywhere else. */
  readonly accelerator?: 'auto' | 'kvm' | 'tcg'
  /** How many processors a machine has; one when absent. */
  readonly processors?: number
  /** Whether machines begin as snapshots of one that waits; true when absent. */
  readonly snapshots?: boolean
  /** Where folders of machines are; a private folder under the system's temporary one when absent. */
  readonly root?: string
  readonly languages?: Languages
}

/** Memory of an idle machine beyond its interpreter: what it changed of its snapshot, and QEMU. */
const machineBytes = 44 * 2 ** 20

/** Programs in virtual machines of QEMU, each with a kernel of its own. */
export function createQemuRuntime(options: QemuOptions = {}): Runtime {
  const { languages = createLanguages(), image = defaultImage, store = storeFolder(), root, program } = options
  const { processors = 1, snapshots = true, accelerator = 'auto' } = options
  return launcherRuntime({
    kind: 'qemu',
    isolation: 'microvm',
    cost: 120,
    guarded: true,
    idleBytes: (spec) => processIdleBytes(spec) + machineBytes,
    // Unknown until the image is looked at: nothing is refused before the probe.
    found: { available: [], waiting: languages.all.map(({ name }) => name), asking: ['python'], missing: new Map() },
    prepare: (signal) =>
      prepareMachines({
        kind: 'qemu',
        languages,
        image,
        store,
        accelerator,
        processors,
        snapshots,
        signal,
        ...(program === undefined ? {} : { program }),
        ...(root === undefined ? {} : { root }),
      }),
  })
}
