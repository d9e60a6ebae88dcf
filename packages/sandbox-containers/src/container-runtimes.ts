import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import type { ContainerRuntimeOptions } from './drivers/container-runtime.ts'
import { type ContainerdOptions, createContainerdRuntime } from './drivers/containerd.ts'
import { createDockerRuntime, type DockerOptions } from './drivers/docker.ts'
import { createGvisorRuntime, createKataRuntime, type OwnKernelOptions } from './drivers/guest-kernels.ts'
import type { ContainerOptions, OciSettings } from './options.ts'

/** What all runtimes of an executor share. */
export type SharedOptions = Pick<ContainerRuntimeOptions, 'root' | 'languages' | 'processors'>

/** Creates the runtimes that are configured, and no other; nothing is reached before the first probe or sandbox. */
export function createContainerRuntimes(options: ContainerOptions, shared: SharedOptions = {}): readonly Runtime[] {
  const { docker, containerd, gvisor, kata } = options
  const ofEngine = (own: OciSettings): OwnKernelOptions => ({ ...shared, ...engineSettings(options, own) })
  const runsc = gvisor?.runsc === undefined ? {} : { runsc: gvisor.runsc }
  return [
    ...(docker === undefined ? [] : [createDockerRuntime({ ...shared, ...docker })]),
    ...(containerd === undefined ? [] : [createContainerdRuntime({ ...shared, ...containerd })]),
    ...(gvisor === undefined ? [] : [createGvisorRuntime({ ...ofEngine(gvisor), ...runsc })]),
    ...(kata === undefined ? [] : [createKataRuntime(ofEngine(kata))]),
  ]
}

/** The engine of an OCI runtime: the one that it names, else Docker, unless containerd alone is configured. */
export function engineOf(
  { docker, containerd }: ContainerOptions,
  { engine, host }: OciSettings,
): 'docker' | 'containerd' {
  if (engine !== undefined) return engine
  return docker === undefined && containerd !== undefined && host === undefined ? 'containerd' : 'docker'
}

/** What an OCI runtime does not say is that of its engine; an address of its own replaces every form of the engine's. */
function engineSettings(options: ContainerOptions, own: OciSettings): OwnKernelOptions {
  const { engine: _, socket, host, image, processors, pause, runtime, namespace, snapshotter } = own
  const shared = {
    ...(image === undefined ? {} : { image }),
    ...(processors === undefined ? {} : { processors }),
    ...(pause === undefined ? {} : { pause }),
    ...(runtime === undefined ? {} : { runtime }),
  }
  if (engineOf(options, own) === 'containerd') {
    const settings: ContainerdOptions = {
      ...options.containerd,
      ...(socket === undefined ? {} : { socket }),
      ...(namespace === undefined ? {} : { namespace }),
      ...(snapshotter === undefined ? {} : { snapshotter }),
    }
    return { ...settings, ...shared, engine: 'containerd' }
  }
  const { socket: theirs, host: other, ...rest } = options.docker ?? {}
  const address: Pick<DockerOptions, 'socket' | 'host'> =
    socket === undefined && host === undefined ? addressOf(theirs, other) : addressOf(socket, host)
  return { ...rest, ...address, ...shared, engine: 'docker' }
}

function addressOf(socket: string | undefined, host: DockerOptions['host']): Pick<DockerOptions, 'socket' | 'host'> {
  return { ...(socket === undefined ? {} : { socket }), ...(host === undefined ? {} : { host }) }
}
