import { flavours } from '../../packages/sandbox-containers/src/images/flavours.ts'
import { storeFolder } from '../../packages/sandbox-microvm/src/images/image-store.ts'
import { buildMachineImage } from '../../packages/sandbox-microvm/src/images/machine-image.ts'
import { hasProgram, installPackages } from './packages.ts'

const program = 'qemu-system-x86_64'
/** Packages are fetched, and a disk is made, on a busy machine. */
const buildMs = 600_000

/** Why the tests of virtual machines cannot run; installs QEMU first where it may. */
export function missingQemu(): readonly string[] {
  if (!hasProgram(program)) installPackages('qemu-system-x86')
  return hasProgram(program) ? [] : [`QEMU: apt-get install qemu-system-x86`]
}

/** Makes the image of virtual machines from packages, once for each content. Resolves with the folder of images. */
export async function buildMachines(): Promise<string> {
  const flavour = flavours.find(({ name }) => name === 'standard')
  if (flavour === undefined) throw new Error('There is no flavour standard.')
  const store = storeFolder()
  await buildMachineImage({ flavour, store, signal: AbortSignal.timeout(buildMs) })
  return store
}
