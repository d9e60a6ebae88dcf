import { buildContainerdImage } from '../../packages/sandbox-containers/src/images/containerd-images.ts'
import { buildDockerImage } from '../../packages/sandbox-containers/src/images/docker-images.ts'
import { type Flavour, flavours } from '../../packages/sandbox-containers/src/images/flavours.ts'
import { buildRootFileSystem } from '../../packages/sandbox-containers/src/images/root-file-system.ts'
import type { ContainerdServer } from './containerd.ts'
import type { DockerServer } from './docker.ts'

/** A large flavour on a busy machine. */
const buildMs = 900_000

/** Builds the image of a flavour into Docker; packages are fetched once for the user. Resolves with its name. */
export async function buildImage({ socket }: Pick<DockerServer, 'socket'>, name: string): Promise<string> {
  const address = { kind: 'socket', path: socket } as const
  return (await buildDockerImage({ address, flavour: named(name), signal: AbortSignal.timeout(buildMs) })).name
}

/** As `buildImage`, into containerd; resolves with the digest. */
export async function buildContainerdFlavour(address: Pick<ContainerdServer, 'socket' | 'namespace'>, name: string) {
  return (await buildContainerdImage({ address, flavour: named(name), signal: AbortSignal.timeout(buildMs) })).digest
}

/** Builds one root file system for both engines, because its making takes longest. Resolves with the name in Docker. */
export async function buildImages(docker: DockerServer, containerd: ContainerdServer, name: string): Promise<string> {
  const [flavour, signal] = [named(name), AbortSignal.timeout(buildMs)]
  const system = await buildRootFileSystem({ flavour, signal })
  try {
    const { socket, namespace } = containerd
    await buildContainerdImage({ address: { socket, namespace }, flavour, system, signal })
    const address = { kind: 'socket', path: docker.socket } as const
    return (await buildDockerImage({ address, flavour, system, signal })).name
  } finally {
    await system.remove()
  }
}

function named(name: string): Flavour {
  const flavour = flavours.find((one) => one.name === name)
  if (flavour === undefined) throw new Error(`There is no flavour ${name}.`)
  return flavour
}
