import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import type { OpenEngine } from '../containers/container-host.ts'
import { openDocker } from '../engines/docker.ts'
import type { DockerAddress, DockerTls } from '../engines/docker-client.ts'
import { type ContainerRuntimeOptions, containerRuntime } from './container-runtime.ts'

/** How a Docker engine is reached and what its sandboxes are made of. */
export interface DockerOptions extends ContainerRuntimeOptions {
  /** The engine's socket; `/var/run/docker.sock` when neither this nor `host` is given. */
  readonly socket?: string
  /** An engine over TCP; without `tls` only on the loopback. */
  readonly host?: { readonly name: string; readonly port: number; readonly tls?: DockerTls }
  /** The OCI runtime, as the engine's `daemon.json` names it. */
  readonly runtime?: string
}

/** Programs in Docker containers: the host's kernel, a foreign root file system. */
export function createDockerRuntime(options: DockerOptions = {}): Runtime {
  const { runtime } = options
  const named = runtime === undefined ? {} : { runtime }
  const open = dockerEngine(options, runtime)
  return containerRuntime(
    { kind: 'docker', isolation: 'container', cost: 40, hasOwnKernel: false, ...named, open },
    options,
  )
}

/** Opens the engine of these options for containers of an OCI runtime, which must be the program, where one is named. */
export function dockerEngine(options: DockerOptions, runtime: string | undefined, program?: string): OpenEngine {
  const address = dockerAddress(options)
  const named = runtime === undefined ? {} : { runtime }
  return ({ owner }, signal) =>
    openDocker({ address, owner, ...named, ...(program === undefined ? {} : { program }) }, signal)
}

/** Where the engine of these options listens. */
export function dockerAddress({ socket, host }: Pick<DockerOptions, 'socket' | 'host'>): DockerAddress {
  if (host === undefined) return { kind: 'socket', path: socket ?? '/var/run/docker.sock' }
  return { kind: 'tcp', host: host.name, port: host.port, ...(host.tls === undefined ? {} : { tls: host.tls }) }
}
