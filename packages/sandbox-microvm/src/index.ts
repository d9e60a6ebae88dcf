export { createFirecrackerRuntime, type FirecrackerOptions } from './drivers/firecracker.ts'
export { createQemuRuntime, type QemuOptions } from './drivers/qemu.ts'
export {
  listImages as listMachineImages,
  pruneImages as pruneMachineImages,
  storeFolder,
} from './images/image-store.ts'
export { buildMachineImage, type MachineBuildOptions } from './images/machine-image.ts'
export type { FirecrackerSettings, MicrovmRuntimesOptions, QemuSettings } from './settings.ts'
