import { randomBytes } from 'node:crypto'
import { stateOf } from '@gantry/sandbox/internal/process/sandbox-root'
import { containerdRemover, sweepContainerd } from '../engines/containerd.ts'
import type { Descriptor, Labels, WriteRequest } from '../engines/containerd-api.ts'
import {
  type ContainerdAddress,
  type ContainerdClient,
  ContainerdError,
  containerdRefusal,
  createContainerdClient,
  isPresent,
} from '../engines/containerd-client.ts'
import { listContainerdImages } from '../engines/containerd-image.ts'
import type { BuiltImage } from './docker-images.ts'
import type { Flavour } from './flavours.ts'
import { type ArchivedBlob, type ImageArchive, imageArchive } from './image-archive.ts'
import { imageLabels, labelsOfSystem } from './image-contents.ts'
import { flavourOf, isReplaced, type Pruned, type SandboxImage } from './image-inventory.ts'
import { imageRepository } from './image-name.ts'
import { buildRootFileSystem, type RootFileSystem } from './root-file-system.ts'

export interface ContainerdLoadOptions {
  readonly address: ContainerdAddress
  readonly snapshotter?: string
  readonly flavour: Flavour
  /** A root file system of the flavour that is there already, and stays the caller's; built and removed when absent. */
  readonly system?: RootFileSystem
  readonly signal: AbortSignal
  readonly onProgress?: (step: string) => void
}

/** A large image on a busy machine. */
const loadMs = 600_000
/** What one message to containerd holds of a layer. */
const pieceBytes = 2 ** 20
/** After this time containerd collects what a build left that was killed. */
const leaseMs = 60 * 60_000

export const defaultSnapshotter = 'overlayfs'
/** Where nodes of Kubernetes have their images. */
const nodeNamespace = 'k8s.io'

/**
 * Builds the image of a flavour, stores it in containerd and unpacks it; the contract is that of `buildDockerImage`, and
 * the same content has the same digest in both engines.
 */
export async function buildContainerdImage(options: ContainerdLoadOptions): Promise<BuiltImage> {
  const { address, snapshotter = defaultSnapshotter, flavour, signal, onProgress } = options
  return withClient(address, signal, async (client) => {
    await client.call('version.v1.Version/Version', {}, { signal })
    const system =
      options.system ??
      (await buildRootFileSystem({ flavour, signal, ...(onProgress === undefined ? {} : { onProgress }) }))
    try {
      const name = `${imageRepository}:${flavour.name}-${system.digest.slice(0, 12)}`
      const newest = `${imageRepository}:${flavour.name}`
      // Nodes of Kubernetes look for images of short names under this host.
      const names =
        address.namespace === nodeNamespace ? [name, newest].map((one) => `docker.io/${one}`) : [name, newest]
      onProgress?.('loading the image into containerd')
      const labels = labelsOfSystem(system)
      const archive = await imageArchive({ folder: system.folder, names: [name], labels, signal })
      await loadIntoContainerd(client, archive, { names, snapshotter, signal })
      return { name, digest: archive.digest }
    } finally {
      if (options.system === undefined) await system.remove()
    }
  })
}

export interface StoreOptions {
  readonly names: readonly string[]
  readonly snapshotter: string
  readonly signal: AbortSignal
}

/** Stores the content of an archive, unpacks its layer and names it; what is there already is not stored again. */
export async function loadIntoContainerd(
  client: ContainerdClient,
  archive: ImageArchive,
  { names, snapshotter, signal }: StoreOptions,
): Promise<void> {
  const { config, manifest, layer } = archive
  const lease = `gantry-build-${randomBytes(6).toString('hex')}`
  const expires = new Date(Date.now() + leaseMs).toISOString()
  await client.call(
    'leases.v1.Leases/Create',
    { id: lease, labels: { 'containerd.io/gc.expire': expires } },
    { signal },
  )
  try {
    const held = { signal, lease, waitMs: loadMs }
    const layerLabels = { 'containerd.io/uncompressed': layer.digest }
    await client.write(writes(layer.digest, layer.bytes, layer.open(signal), layerLabels), held)
    const references: Labels = { [`containerd.io/gc.ref.snapshot.${snapshotter}`]: layer.digest }
    await client.write(writesOf(config, references), held)
    await client.write(
      writesOf(manifest, {
        'containerd.io/gc.ref.content.config': config.digest,
        'containerd.io/gc.ref.content.l.0': layer.digest,
      }),
      held,
    )
    await unpack(client, layer, snapshotter, held)
    const target = { mediaType: mediaTypes.manifest, digest: manifest.digest, size: manifest.bytes.length }
    for (const name of names) await nameImage(client, name, target, signal)
  } finally {
    // Without it the lease ends by itself; the error of the work above is the one that matters.
    await client
      .call('leases.v1.Leases/Delete', { id: lease, sync: false }, { signal: AbortSignal.timeout(5_000) })
      .catch(() => undefined)
  }
}

const mediaTypes = {
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar',
} as const

/** The layer as a snapshot, named by its digest, because it is the only one. */
async function unpack(
  client: ContainerdClient,
  { digest, bytes }: ImageArchive['layer'],
  snapshotter: string,
  held: { readonly signal: AbortSignal; readonly lease: string; readonly waitMs: number },
): Promise<void> {
  if (await isPresent(client.call('snapshots.v1.Snapshots/Stat', { snapshotter, key: digest }, held))) return
  const key = `gantry-unpack-${randomBytes(6).toString('hex')}`
  const { mounts } = await client.call(
    'snapshots.v1.Snapshots/Prepare',
    { snapshotter, key, parent: '', labels: {} },
    held,
  )
  const diff: Descriptor = { mediaType: mediaTypes.layer, digest, size: bytes }
  await client.call('diff.v1.Diff/Apply', { diff, mounts }, held)
  try {
    await client.call('snapshots.v1.Snapshots/Commit', { snapshotter, name: digest, key, labels: {} }, held)
  } catch (error) {
    // Another process unpacked the same layer meanwhile; the lease's end removes ours.
    if (!(error instanceof ContainerdError) || error.kind !== 'exists') throw error
  }
}

async function nameImage(
  client: ContainerdClient,
  name: string,
  target: Descriptor,
  signal: AbortSignal,
): Promise<void> {
  const image = { name, labels: {}, target }
  try {
    await client.call('images.v1.Images/Create', { image }, { signal })
  } catch (error) {
    if (!(error instanceof ContainerdError) || error.kind !== 'exists') throw error
    await client.call('images.v1.Images/Update', { image }, { signal })
  }
}

function writesOf({ digest, bytes }: ArchivedBlob, labels: Labels): AsyncIterable<WriteRequest> {
  return writes(digest, bytes.length, [bytes], labels)
}

/** Content in messages of bounded size, and the commit that containerd refuses for another digest. */
async function* writes(
  digest: string,
  total: number,
  pieces: AsyncIterable<Buffer> | Iterable<Buffer>,
  labels: Labels,
): AsyncGenerator<WriteRequest> {
  const ref = `gantry-${digest}-${randomBytes(4).toString('hex')}`
  let offset = 0
  for await (const piece of inPieces(pieces)) {
    yield { action: 'WRITE', ref, total, expected: digest, offset, data: piece }
    offset += piece.length
  }
  yield { action: 'COMMIT', ref, total, expected: digest, offset, labels }
}

async function* inPieces(chunks: AsyncIterable<Buffer> | Iterable<Buffer>): AsyncGenerator<Buffer> {
  let held: Buffer[] = []
  let bytes = 0
  for await (const chunk of chunks) {
    held.push(chunk)
    bytes += chunk.length
    if (bytes < pieceBytes) continue
    yield Buffer.concat(held)
    held = []
    bytes = 0
  }
  if (bytes > 0) yield Buffer.concat(held)
}

/** Lists the images for sandboxes, newest first. Rejects with RUNTIME_UNAVAILABLE when containerd cannot be used. */
export async function listContainerdSandboxImages(
  address: ContainerdAddress,
  signal: AbortSignal,
): Promise<readonly SandboxImage[]> {
  return withClient(address, signal, (client) => imagesOf(client, signal))
}

async function imagesOf(client: ContainerdClient, signal: AbortSignal): Promise<readonly SandboxImage[]> {
  const byDigest = new Map<string, SandboxImage>()
  for (const { record, image } of await listContainerdImages(client, signal)) {
    if (image.labels[imageLabels.parts] === undefined) continue
    const names = [...(byDigest.get(image.digest)?.names ?? []), record.name].toSorted()
    const flavour = flavourOf(names)
    const created = new Date((record.createdAt?.seconds ?? 0) * 1_000).toISOString()
    const bytes = image.bytes
    byDigest.set(image.digest, {
      digest: image.digest,
      names,
      ...(flavour === undefined ? {} : { flavour }),
      bytes,
      createdAt: created,
    })
  }
  return [...byDigest.values()].toSorted((one, other) => other.createdAt.localeCompare(one.createdAt, 'en'))
}

/** The contract is that of `pruneDocker`; containerd collects the content and the snapshots of an image without a name. */
export async function pruneContainerd(
  address: ContainerdAddress,
  signal: AbortSignal,
  snapshotter = defaultSnapshotter,
): Promise<Pruned> {
  return withClient(address, signal, async (client) => {
    const remover = containerdRemover(client)
    const isDead = (owner: string): boolean => stateOf(owner, { isHere: false }) === 'dead'
    const containers = await sweepContainerd(client, snapshotter, remover, isDead, signal).finally(remover.close)
    const images = (await imagesOf(client, signal)).filter(isReplaced)
    for (const { names } of images) {
      for (const name of names)
        await isPresent(client.call('images.v1.Images/Delete', { name, sync: true }, { signal }))
    }
    return { images, containers, kept: [] }
  })
}

async function withClient<Value>(
  address: ContainerdAddress,
  signal: AbortSignal,
  work: (client: ContainerdClient) => Promise<Value>,
): Promise<Value> {
  const client = await createContainerdClient(address)
  try {
    return await work(client)
  } catch (error) {
    signal.throwIfAborted()
    throw containerdRefusal(error, address)
  } finally {
    client.close()
  }
}
