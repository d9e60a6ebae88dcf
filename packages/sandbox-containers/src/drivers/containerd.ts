import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import type { OpenEngine } from '../containers/container-host.ts'
import { type ContainerdRuntime, openContainerd } from '../engines/containerd.ts'
import type { ContainerdAddress } from '../engines/containerd-client.ts'
import { defaultSnapshotter } from '../images/containerd-images.ts'
import { type ContainerRuntimeOptions, containerRuntime } from './container-runtime.ts'

/** How containerd is reached and what its sandboxes are made of. It must run on this machine. */
export interface ContainerdOptions extends ContainerRuntimeOptions {
  /** `/run/containerd/containerd.sock` when absent. */
  readonly socket?: string
  /** Where its containers and images are; `gantry` when absent. */
  readonly namespace?: string
  /** `overlayfs` when absent. */
  readonly snapshotter?: string
}

/** containerd's own OCI runtime, which calls runc. */
export const runcRuntime = 'io.containerd.runc.v2'

/** Programs in containers of containerd, without Docker: the host's kernel, a foreign root file system. */
export function createContainerdRuntime(options: ContainerdOptions = {}): Runtime {
  const open = containerdEngine(options, () => ({ name: runcRuntime }), 'runc')
  return containerRuntime({ kind: 'containerd', isolation: 'container', cost: 35, hasOwnKernel: false, open }, options)
}

/**
 * Opens containerd for containers of an OCI runtime, which must be the program, where one is named; `runtime` gets the
 * private folder of the owner.
 */
export function containerdEngine(
  options: ContainerdOptions,
  runtime: (folder: string) => ContainerdRuntime | Promise<ContainerdRuntime>,
  program?: string,
): OpenEngine {
  const { snapshotter = defaultSnapshotter } = options
  const address = containerdAddress(options)
  const expected = program === undefined ? {} : { program }
  return async ({ owner, folder }, signal) =>
    openContainerd({ address, snapshotter, owner, folder, runtime: await runtime(folder), ...expected }, signal)
}

/** Where containerd of these options listens, and the namespace in it. */
export function containerdAddress({
  socket = '/run/containerd/containerd.sock',
  namespace = 'gantry',
}: Pick<ContainerdOptions, 'socket' | 'namespace'>): ContainerdAddress {
  return { socket, namespace }
}
