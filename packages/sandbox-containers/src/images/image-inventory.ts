import { stateOf } from '@gantry/sandbox/internal/process/sandbox-root'
import { createRemover } from '../engines/container-removal.ts'
import { dockerRemoval, sweepDocker } from '../engines/docker.ts'
import {
  createDockerClient,
  type DockerAddress,
  type DockerClient,
  DockerError,
  engineRefusal,
} from '../engines/docker-client.ts'
import { flavours } from './flavours.ts'
import { imageLabels } from './image-contents.ts'
import { imageRepository } from './image-name.ts'

/** An image for sandboxes in an engine: one of ours, or one that was made from ours. */
export interface SandboxImage {
  /** `sha256:…` */
  readonly digest: string
  readonly names: readonly string[]
  /** The flavour whose newest image it is. */
  readonly flavour?: string
  readonly bytes: number
  /** When the engine got it or its last name, ISO 8601: the same content has no time of its own. */
  readonly createdAt: string
}

/** What `pruneDocker` did. */
export interface Pruned {
  readonly images: readonly SandboxImage[]
  /** Ids of containers whose owner had died. */
  readonly containers: readonly string[]
  /** Images that would have been removed, and why they were not. */
  readonly kept: readonly { readonly digest: string; readonly reason: string }[]
}

interface DockerImage {
  readonly Id: string
  readonly RepoTags?: readonly string[] | null
  readonly Size: number
  readonly Created: number
}

/** Lists the images for sandboxes, newest first. Rejects with RUNTIME_UNAVAILABLE when the engine cannot be used. */
export async function listDockerImages(address: DockerAddress, signal: AbortSignal): Promise<readonly SandboxImage[]> {
  const client = createDockerClient(address)
  try {
    return await imagesOf(client, signal)
  } catch (error) {
    throw engineRefusal(error, address, signal)
  } finally {
    client.close()
  }
}

/**
 * Removes the images of ours that a newer one of their flavour has replaced, and the containers of dead owners. An image
 * that has a name of the user's is never removed. Whether an owner on another machine has died
 * is unknown here, so containers of a remote engine stay.
 */
export async function pruneDocker(address: DockerAddress, signal: AbortSignal): Promise<Pruned> {
  const client = createDockerClient(address)
  try {
    const containers = await sweepContainers(client, signal)
    const images: SandboxImage[] = []
    const kept: Pruned['kept'][number][] = []
    for (const image of (await imagesOf(client, signal)).filter(isReplaced)) {
      const refused = await removeImage(client, image, signal)
      if (refused === undefined) images.push(image)
      else kept.push({ digest: image.digest, reason: refused })
    }
    return { images, containers, kept }
  } catch (error) {
    throw engineRefusal(error, address, signal)
  } finally {
    client.close()
  }
}

async function imagesOf(client: DockerClient, signal: AbortSignal): Promise<readonly SandboxImage[]> {
  const filters = encodeURIComponent(JSON.stringify({ label: [imageLabels.parts] }))
  const found = (await client.call('GET', `/images/json?filters=${filters}`, { signal })) as readonly DockerImage[]
  const images = await Promise.all(
    found.map(async (image) => {
      const { Id, RepoTags, Size } = image
      const names = (RepoTags ?? []).filter((name) => name !== '<none>:<none>').toSorted()
      const flavour = flavourOf(names)
      const createdAt = (await timeOf(client, image, signal)).toISOString()
      return { digest: Id, names, ...(flavour === undefined ? {} : { flavour }), bytes: Size, createdAt }
    }),
  )
  return images.toSorted((one, other) => other.createdAt.localeCompare(one.createdAt, 'en'))
}

/** An image of ours says that it was made in 1970, as every engine's copy does; its names are of this engine. */
async function timeOf(client: DockerClient, { Id, Created }: DockerImage, signal: AbortSignal): Promise<Date> {
  const found = await client.call('GET', `/images/${Id}/json`, { signal }).catch((error: unknown) => {
    // Removed in the meantime.
    if (error instanceof DockerError && error.status === 404) return {}
    throw error
  })
  const { Metadata } = found as { readonly Metadata?: { readonly LastTagTime?: string } }
  const named = new Date(Metadata?.LastTagTime ?? 0)
  return named.getTime() > 0 ? named : new Date(Created * 1_000)
}

/** The flavour whose newest image has these names. */
export function flavourOf(names: readonly string[]): string | undefined {
  return flavours.find((one) => names.includes(`${imageRepository}:${one.name}`))?.name
}

/** Labels are inherited, so the names tell ours from an image that a user made from it. */
export function isReplaced({ names, flavour }: SandboxImage): boolean {
  return flavour === undefined && names.length > 0 && names.every((name) => name.startsWith(`${imageRepository}:`))
}

/** Why it stays; undefined when it is gone. Without force, so that the engine refuses while a container uses it. */
async function removeImage(
  client: DockerClient,
  { names }: SandboxImage,
  signal: AbortSignal,
): Promise<string | undefined> {
  for (const name of names) {
    try {
      await client.call('DELETE', `/images/${encodeURIComponent(name)}`, { signal })
    } catch (error) {
      if (!(error instanceof DockerError)) throw error
      if (error.status !== 404) return error.message
    }
  }
  return undefined
}

/** Without opening the engine for sandboxes, so that one whose OCI runtime is refused is swept too. */
async function sweepContainers(client: DockerClient, signal: AbortSignal): Promise<readonly string[]> {
  if (client.address.kind !== 'socket') return []
  const remover = createRemover(dockerRemoval(client))
  try {
    return await sweepDocker(client, remover, (owner) => stateOf(owner, { isHere: false }) === 'dead', signal)
  } finally {
    await remover.close()
  }
}
