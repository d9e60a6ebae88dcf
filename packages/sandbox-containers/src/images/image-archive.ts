import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import type { ToolError } from '@gantry/contract'
import { unavailable } from '../engines/docker-client.ts'

export interface ArchiveOptions {
  /** The root file system; it must not change while the archive is in use. */
  readonly folder: string
  /** By which engines find the image, with tags: `gantry/sandbox:standard`. They are no part of its digest. */
  readonly names: readonly string[]
  readonly labels: { readonly [name: string]: string }
  readonly signal: AbortSignal
}

/**
 * An image of one layer as one tar, which is an archive of `docker load` and an OCI layout at the same time. Nothing in it
 * tells when or by whom it was made, so that the same files have the same digests on every machine.
 */
export interface ImageArchive {
  /** Of the configuration, `sha256:…`; the Id of the image in Docker. */
  readonly digest: string
  readonly config: ArchivedBlob
  /** The OCI manifest; the target of the image in containerd. */
  readonly manifest: ArchivedBlob
  /** Not compressed; `open` reads the folder again, and fails as `open` of the archive does. */
  readonly layer: Measured & { open(signal: AbortSignal): AsyncIterable<Buffer> }
  /** The length of the archive. */
  readonly bytes: number
  /**
   * Reads the archive from its start; each call reads the folder again. The stream fails with the reason of the signal, and
   * with RUNTIME_UNAVAILABLE when the folder cannot be read or has changed.
   */
  open(signal: AbortSignal): Readable
}

/** An image without a time of its own: an engine notes by itself when it got it. */
const created = '1970-01-01T00:00:00Z'
/** What a header of the archive can say of a file's length. */
const mostLayerBytes = 0o77777777777
const block = 512

/** Content and its digest, `sha256:…`. */
export interface ArchivedBlob {
  readonly digest: string
  readonly bytes: Buffer
}

/** Reads the folder once, because the digest of the layer is part of the configuration. */
export async function imageArchive({ folder, names, labels, signal }: ArchiveOptions): Promise<ImageArchive> {
  const layer = await measure(layerOf(folder, signal))
  if (layer.bytes > mostLayerBytes) throw failed('its files are larger than 8 GiB')
  const config = jsonBlob(configOf(layer.digest, labels))
  const manifest = jsonBlob(manifestOf(config, layer))
  const before = [
    ...entry('oci-layout', json({ imageLayoutVersion: '1.0.0' })),
    ...entry('index.json', json(indexOf(manifest, names))),
    ...entry('manifest.json', json([dockerManifestOf(config, layer, names)])),
    header('blobs/', 0),
    header('blobs/sha256/', 0),
    ...[config, manifest].flatMap(({ digest, bytes }) => entry(blobPath(digest), bytes)),
    header(blobPath(layer.digest), layer.bytes),
  ]
  const after = [padding(layer.bytes), Buffer.alloc(2 * block)]
  const around = [...before, ...after].reduce((sum, { length }) => sum + length, 0)
  async function* layerAgain(given: AbortSignal): AsyncGenerator<Buffer> {
    let bytes = 0
    for await (const piece of layerOf(folder, given)) {
      bytes += piece.length
      if (bytes > layer.bytes) break
      yield piece
    }
    // Its content is compared by the engine, which knows the digest.
    if (bytes !== layer.bytes) throw failed('the files of the image changed while they were read')
  }
  async function* archive(given: AbortSignal): AsyncGenerator<Buffer> {
    yield* before
    yield* layerAgain(given)
    yield* after
  }
  return {
    digest: config.digest,
    config,
    manifest,
    layer: { ...layer, open: layerAgain },
    bytes: around + layer.bytes,
    open: (given) => Readable.from(archive(given), { objectMode: false }),
  }
}

function configOf(layer: string, labels: ArchiveOptions['labels']): object {
  const sorted = Object.entries(labels).toSorted(([one], [other]) => (one < other ? -1 : 1))
  return {
    created,
    architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
    os: 'linux',
    config: { Labels: Object.fromEntries(sorted) },
    rootfs: { type: 'layers', diff_ids: [layer] },
    history: [{ created, created_by: 'gantry runtime build' }],
  }
}

const ociType = 'application/vnd.oci.image'

function manifestOf(config: ArchivedBlob, layer: Measured): object {
  return {
    schemaVersion: 2,
    mediaType: `${ociType}.manifest.v1+json`,
    config: { mediaType: `${ociType}.config.v1+json`, digest: config.digest, size: config.bytes.length },
    layers: [{ mediaType: `${ociType}.layer.v1.tar`, digest: layer.digest, size: layer.bytes }],
  }
}

function indexOf({ digest, bytes }: ArchivedBlob, names: readonly string[]): object {
  const target = { mediaType: `${ociType}.manifest.v1+json`, digest, size: bytes.length }
  const manifests = names.map((name) => ({
    ...target,
    annotations: {
      'io.containerd.image.name': `docker.io/${name}`,
      'org.opencontainers.image.ref.name': name.slice(name.lastIndexOf(':') + 1),
    },
  }))
  return { schemaVersion: 2, mediaType: `${ociType}.index.v1+json`, manifests }
}

function dockerManifestOf(config: ArchivedBlob, layer: Measured, names: readonly string[]): object {
  return { Config: blobPath(config.digest), RepoTags: names, Layers: [blobPath(layer.digest)] }
}

/** The digest of a content, `sha256:…`, and its length. */
export interface Measured {
  readonly digest: string
  readonly bytes: number
}

async function measure(pieces: AsyncIterable<Buffer>): Promise<Measured> {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const piece of pieces) {
    hash.update(piece)
    bytes += piece.length
  }
  return { digest: `sha256:${hash.digest('hex')}`, bytes }
}

/** The same bytes for the same files: sorted, without times and owners, and with modes that no umask has changed. */
async function* layerOf(folder: string, signal: AbortSignal): AsyncGenerator<Buffer> {
  const fixed = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner', '--format=gnu']
  const modes = '--mode=u+rwX,go=rX,a-s'
  const child = spawn('tar', [...fixed, modes, '-C', folder, '-c', '.'], { stdio: ['ignore', 'pipe', 'pipe'], signal })
  let said = ''
  child.stderr.on('data', (piece: Buffer) => {
    said = (said + piece.toString()).slice(0, 2_000)
  })
  const ended = new Promise<void>((resolve, reject) => {
    child.on('error', (cause) => reject(signal.aborted ? signal.reason : failed('tar did not start', cause)))
    child.on('close', (code) => {
      if (code === 0) resolve()
      else reject(failed(`tar ended with ${code}: ${said.split('\n')[0]}`))
    })
  })
  ended.catch(() => undefined)
  try {
    for await (const piece of child.stdout as AsyncIterable<Buffer>) yield piece
    await ended
  } finally {
    child.kill()
  }
}

function failed(reason: string, cause?: unknown): ToolError {
  return unavailable(`The image could not be built: ${reason}.`, 'Run `gantry runtime build` again.', cause)
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value))
}

function jsonBlob(value: unknown): ArchivedBlob {
  const bytes = json(value)
  return { digest: `sha256:${createHash('sha256').update(bytes).digest('hex')}`, bytes }
}

function blobPath(digest: string): string {
  return `blobs/${digest.replace(':', '/')}`
}

/** A file of the archive. */
function entry(name: string, bytes: Buffer): readonly Buffer[] {
  return [header(name, bytes.length), bytes, padding(bytes.length)]
}

function padding(length: number): Buffer {
  return Buffer.alloc((block - (length % block)) % block)
}

/** A header in the format ustar, of a folder when the name ends with `/`. */
function header(name: string, length: number): Buffer {
  const bytes = Buffer.alloc(block)
  const isFolder = name.endsWith('/')
  const octal = (value: number, at: number, digits: number): void =>
    void bytes.write(`${value.toString(8).padStart(digits, '0')}\0`, at, 'latin1')
  bytes.write(name, 0, 100, 'latin1')
  octal(isFolder ? 0o755 : 0o644, 100, 7)
  octal(0, 108, 7)
  octal(0, 116, 7)
  octal(length, 124, 11)
  octal(0, 136, 11)
  // The checksum is counted as if it were blank.
  bytes.write('        ', 148, 'latin1')
  bytes.write(isFolder ? '5' : '0', 156, 'latin1')
  bytes.write('ustar\x0000', 257, 'latin1')
  const sum = bytes.reduce((total, byte) => total + byte, 0)
  bytes.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return bytes
}
