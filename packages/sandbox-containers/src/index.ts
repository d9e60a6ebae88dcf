export { createContainerRuntimes, engineOf, type SharedOptions } from './container-runtimes.ts'
export { type ContainerdOptions, containerdAddress, createContainerdRuntime } from './drivers/containerd.ts'
export { createDockerRuntime, type DockerOptions, dockerAddress } from './drivers/docker.ts'
export {
  createGvisorRuntime,
  createKataRuntime,
  type GvisorOptions,
  type OwnKernelOptions,
} from './drivers/guest-kernels.ts'
export { type ContainerdAddress, containerdText } from './engines/containerd-client.ts'
export { addressText, type DockerAddress, type DockerTls } from './engines/docker-client.ts'
export { buildContainerdImage, listContainerdSandboxImages, pruneContainerd } from './images/containerd-images.ts'
export { type BuiltImage, buildDockerImage, type LoadOptions } from './images/docker-images.ts'
export { type Flavour, flavours } from './images/flavours.ts'
export { listDockerImages, type Pruned, pruneDocker, type SandboxImage } from './images/image-inventory.ts'
export type { ContainerdSettings, ContainerOptions, DockerSettings, GvisorSettings, OciSettings } from './options.ts'
