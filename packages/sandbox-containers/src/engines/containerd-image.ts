import { createHash } from 'node:crypto'
import type { ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { absentImageRemedy } from './absent-image.ts'
import type { Descriptor, ImageRecord } from './containerd-api.ts'
import { type ContainerdAddress, type ContainerdClient, ContainerdError, containerdText } from './containerd-client.ts'
import { unavailable } from './docker-client.ts'
import type { ContainerImage } from './engine.ts'

const remedy = 'Run `gantry runtime build --engine containerd`.'
/** More than any manifest or configuration that an engine accepts. */
const mostBytes = 4 * 2 ** 20

export interface FoundImage extends ContainerImage {
  /** The snapshot of its last layer. */
  readonly chainId: string
  /** Of its layers, as they are stored. */
  readonly bytes: number
}

/**
 * Finds an image by name, by the digest of its configuration, which is what Docker calls its Id, or by that of its
 * manifest. Rejects with RUNTIME_UNAVAILABLE when there is none or it is not unpacked.
 */
export async function findContainerdImage(
  client: ContainerdClient,
  snapshotter: string,
  name: string,
  signal: AbortSignal,
): Promise<FoundImage> {
  const found = name.startsWith('sha256:')
    ? await imageByDigest(client, name, signal)
    : await imageByName(client, name, signal)
  if (found === undefined) throw absentContainerdImage(client.address, name)
  const image = await readImage(client, found, signal).catch((error: unknown) => {
    if (!(error instanceof MalformedImage)) throw error
    throw unavailable(`The image ${JSON.stringify(name)} cannot be read. ${error.message}`, remedy, error)
  })
  try {
    await client.call('snapshots.v1.Snapshots/Stat', { snapshotter, key: image.chainId }, { signal })
    return image
  } catch (error) {
    if (!(error instanceof ContainerdError) || error.kind !== 'absent') throw error
    const reason = `The image ${JSON.stringify(name)} is not unpacked for the snapshotter ${snapshotter}.`
    throw unavailable(reason, 'Run `gantry runtime build --engine containerd`, or import it with `ctr images import`.')
  }
}

export function absentContainerdImage(address: ContainerdAddress, name: string, cause?: unknown): ToolError {
  const reason = `containerd at ${containerdText(address)} has no image ${JSON.stringify(name)} in the namespace ${address.namespace}.`
  return unavailable(reason, absentImageRemedy(name, 'containerd'), cause)
}

/** The names under which other clients of containerd store an image that a user calls `name`. */
function storedNames(name: string): readonly string[] {
  return [name, `docker.io/${name}`, `docker.io/library/${name}`]
}

async function imageByName(
  client: ContainerdClient,
  name: string,
  signal: AbortSignal,
): Promise<Descriptor | undefined> {
  for (const stored of storedNames(name)) {
    try {
      return (await client.call('images.v1.Images/Get', { name: stored }, { signal })).image.target
    } catch (error) {
      if (!(error instanceof ContainerdError) || error.kind !== 'absent') throw error
    }
  }
  return undefined
}

async function imageByDigest(
  client: ContainerdClient,
  digest: string,
  signal: AbortSignal,
): Promise<Descriptor | undefined> {
  const { images } = await client.call('images.v1.Images/List', { filters: [] }, { signal })
  for (const { target } of images) {
    if (target.digest === digest || (await readableImage(client, target, signal))?.digest === digest) return target
  }
  return undefined
}

/** Images of the namespace with their configuration's digest and labels; those that cannot be read are left out. */
export async function listContainerdImages(
  client: ContainerdClient,
  signal: AbortSignal,
): Promise<readonly { readonly record: ImageRecord; readonly image: FoundImage }[]> {
  const { images } = await client.call('images.v1.Images/List', { filters: [] }, { signal })
  const read = await Promise.all(
    images.map(async (record) => {
      const image = await readableImage(client, record.target, signal)
      return image === undefined ? [] : [{ record, image }]
    }),
  )
  return read.flat()
}

/** What a manifest or configuration says is not what the specification of images says. */
class MalformedImage extends Error {}

/** Undefined for an image of another party that cannot be read: it is none of ours. */
async function readableImage(
  client: ContainerdClient,
  target: Descriptor,
  signal: AbortSignal,
): Promise<FoundImage | undefined> {
  try {
    return await readImage(client, target, signal)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof ContainerdError || error instanceof MalformedImage) return undefined
    throw error
  }
}

async function readImage(client: ContainerdClient, target: Descriptor, signal: AbortSignal): Promise<FoundImage> {
  const first = await readJson(client, target, signal)
  const manifest = Array.isArray(first.manifests)
    ? await readJson(client, forThisMachine(first.manifests), signal)
    : first
  const config = descriptorOf(manifest.config)
  const content = await readJson(client, config, signal)
  const inner = isObject(content.config) ? content.config : {}
  const layers = isObject(content.rootfs) && Array.isArray(content.rootfs.diff_ids) ? content.rootfs.diff_ids : []
  if (layers.length === 0 || layers.some((layer) => typeof layer !== 'string')) {
    throw new MalformedImage('The configuration of the image names no layers.')
  }
  const stored = Array.isArray(manifest.layers) ? manifest.layers.map(descriptorOf) : []
  return {
    digest: config.digest,
    labels: textsOf(inner.Labels),
    chainId: chainIdOf(layers as readonly string[]),
    bytes: stored.reduce((sum, { size }) => sum + size, 0),
  }
}

function textsOf(value: unknown): { readonly [name: string]: string } {
  if (!isObject(value)) return {}
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}

/** The snapshot of a layer is named by everything below it. */
export function chainIdOf(layers: readonly string[]): string {
  const sha256 = (text: string): string => `sha256:${createHash('sha256').update(text).digest('hex')}`
  return layers.reduce((below, layer) => (below === '' ? layer : sha256(`${below} ${layer}`)), '')
}

function forThisMachine(manifests: readonly unknown[]): Descriptor {
  const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64'
  const fits = manifests.find((one) => {
    const platform = isObject(one) && isObject(one.platform) ? one.platform : undefined
    return platform === undefined || (platform.os === 'linux' && platform.architecture === architecture)
  })
  return descriptorOf(fits)
}

function descriptorOf(value: unknown): Descriptor {
  if (isObject(value) && typeof value.digest === 'string' && typeof value.size === 'number') {
    const { digest, size, mediaType } = value
    return { digest, size, mediaType: typeof mediaType === 'string' ? mediaType : '' }
  }
  throw new MalformedImage('The manifest of the image names no content.')
}

async function readJson(
  client: ContainerdClient,
  { digest, size }: Descriptor,
  signal: AbortSignal,
): Promise<{ readonly [name: string]: unknown }> {
  if (size > mostBytes) throw new MalformedImage(`The content ${digest} is larger than 4 MiB.`)
  const pieces = await client.list('content.v1.Content/Read', { digest, offset: 0, size: 0 }, { signal })
  try {
    const value: unknown = JSON.parse(Buffer.concat(pieces.map(({ data }) => data)).toString())
    if (isObject(value)) return value
  } catch (cause) {
    throw new MalformedImage(`The content ${digest} is not JSON.`, { cause })
  }
  throw new MalformedImage(`The content ${digest} is not an object.`)
}
