import { createHash, randomUUID } from 'node:crypto'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { CompletedPart } from '@aws-sdk/client-s3'
import { ToolError } from '@gantry/contract'
import type { Content, PutOptions, StoredFile } from '../artifact-store.ts'
import { createDigest, digitsOf, piecesOf } from '../content.ts'
import { isAbsent, type S3Call, type S3Location, wrongAnswer } from './client.ts'

/** The target of an upload. */
interface Target {
  readonly call: S3Call
  readonly place: S3Location
  readonly key: string
  readonly signal: AbortSignal
}

const mostParts = 10_000
const hourMs = 3_600_000
const dayMs = 24 * hourMs

/**
 * Uploads content whose digest is known. The server verifies the checksums before the object becomes visible, so that
 * it is complete or missing, and replaces a corrupted one.
 */
export async function upload(gathered: Gathered, target: Target): Promise<void> {
  if (gathered.bytes <= memoryBytes) return sendWhole(gathered, target)
  const parts = await partsOf(gathered)
  if (await isThere(gathered, parts, target)) return
  await sendParts(gathered, parts, target)
}

async function sendWhole({ digest, bytes, part }: Gathered, { call, place, key, signal }: Target): Promise<void> {
  const Body = await part(0, bytes)
  const checksum = Buffer.from(digitsOf(digest) ?? '', 'hex').toString('base64')
  const { ChecksumSHA256 = checksum } = await call(
    (s3, options) =>
      s3.putObject(
        { Bucket: place.bucket, Key: key, Body, ContentLength: bytes, ContentType: type, ChecksumSHA256: checksum },
        options,
      ),
    signal,
  )
  if (ChecksumSHA256 !== checksum) throw wrongAnswer(place)
}

/** The content type of every object; readers get the real type from the row that names the object. */
const type = 'application/octet-stream'

interface Part {
  readonly start: number
  readonly end: number
  readonly checksum: Buffer
}

async function partsOf({ bytes, part }: Gathered): Promise<Part[]> {
  const size = Math.max(memoryBytes, Math.ceil(bytes / mostParts))
  const parts: Part[] = []
  for (let start = 0; start < bytes; start += size) {
    const end = Math.min(bytes, start + size)
    parts.push({ start, end, checksum: sha256(await part(start, end)) })
  }
  return parts
}

/** The checksum of a multipart object is computed over the checksums of its parts. */
function wholeChecksum(parts: readonly Part[]): string {
  const all = Buffer.concat(parts.map(({ checksum }) => checksum))
  return `${sha256(all).toString('base64')}-${parts.length}`
}

/** Whether exactly this content was put within the hour. Older content is sent again, to renew its age. */
async function isThere(gathered: Gathered, parts: readonly Part[], target: Target): Promise<boolean> {
  const { call, place, key, signal } = target
  const found = await call(
    (s3, options) => s3.headObject({ Bucket: place.bucket, Key: key, ChecksumMode: 'ENABLED' }, options),
    signal,
  ).catch((error: unknown) => {
    if (isAbsent(error)) return undefined
    throw error
  })
  return (
    found?.ContentLength === gathered.bytes &&
    found.ChecksumSHA256 === wholeChecksum(parts) &&
    Number(found.LastModified) > Date.now() - hourMs
  )
}

/**
 * Starts a multipart upload, sends its parts one after another and completes or aborts it. When the abort fails too,
 * the next large upload aborts it after a day.
 */
async function sendParts({ part }: Gathered, parts: readonly Part[], target: Target): Promise<void> {
  const { call, place, key, signal } = target
  const object = { Bucket: place.bucket, Key: key }
  await endOldUploads(target)
  const { UploadId = '' } = await call(
    (s3, options) => s3.createMultipartUpload({ ...object, ContentType: type, ChecksumAlgorithm: 'SHA256' }, options),
    signal,
  )
  const one = { ...object, UploadId }
  try {
    const Parts: CompletedPart[] = []
    for (const [index, { start, end, checksum }] of parts.entries()) {
      const sum = { PartNumber: index + 1, ChecksumSHA256: checksum.toString('base64') }
      const Body = await part(start, end)
      const sent = await call(
        (s3, options) => s3.uploadPart({ ...one, ...sum, Body, ContentLength: end - start }, options),
        signal,
      )
      Parts.push({ ...sum, ETag: sent.ETag })
    }
    const whole = wholeChecksum(parts)
    const { ChecksumSHA256 = whole } = await call(
      (s3, options) => s3.completeMultipartUpload({ ...one, MultipartUpload: { Parts } }, options),
      signal,
    )
    if (ChecksumSHA256 !== whole) throw wrongAnswer(place)
  } catch (error) {
    const { signal: own } = new AbortController()
    await call((s3, options) => s3.abortMultipartUpload(one, options), own).catch(() => undefined)
    throw error
  }
}

/** Aborts abandoned uploads. Without the permission to list them, a lifecycle rule of the bucket must do it. */
async function endOldUploads({ call, place, signal }: Target): Promise<void> {
  const { bucket: Bucket, prefix } = place
  const listed = await call(
    (s3, options) => s3.listMultipartUploads({ Bucket, Prefix: `${prefix}/` }, options),
    signal,
  ).catch(() => undefined)
  const before = Date.now() - dayMs
  for (const { Key, UploadId, Initiated } of listed?.Uploads ?? []) {
    if (!(Number(Initiated) < before)) continue
    await call((s3, options) => s3.abortMultipartUpload({ Bucket, Key, UploadId }, options), signal).catch(
      () => undefined,
    )
  }
}

function sha256(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest()
}

/** Buffered content, whose digest is known before its first byte is sent. */
interface Gathered extends StoredFile {
  /** The bytes from `start`, up to and excluding `end`. */
  part(start: number, end: number): Promise<Uint8Array>
  close(): Promise<void>
}

/** Larger content is buffered in a file. */
const memoryBytes = 8_388_608

/**
 * Buffers content up to the limit: in memory, or in an unlinked temporary file when it is streamed and large. The file
 * disappears with the process.
 */
export async function gather(content: Content, { maxBytes, signal }: PutOptions): Promise<Gathered> {
  const digest = createDigest()
  const held: Uint8Array[] = []
  let file: FileHandle | undefined
  let bytes = 0
  try {
    for await (const piece of piecesOf(content, signal)) {
      bytes += piece.length
      if (bytes > maxBytes) {
        throw new ToolError('RESULT_TOO_LARGE', `The file is larger than ${maxBytes} bytes, which is the limit.`)
      }
      digest.add(piece)
      held.push(piece)
      if (content instanceof Uint8Array || (file === undefined && bytes <= memoryBytes)) continue
      file ??= await onDisk(openNameless())
      for (const one of held.splice(0)) await onDisk(file.appendFile(one))
    }
    signal.throwIfAborted()
  } catch (error) {
    await file?.close()
    throw error
  }
  const known = { digest: digest.end(), bytes }
  return file === undefined ? inMemory(held, known) : inFile(file, known)
}

function inMemory(held: readonly Uint8Array[], known: StoredFile): Gathered {
  const whole = held.length === 1 && held[0] !== undefined ? held[0] : Buffer.concat(held)
  return { ...known, part: async (start, end) => whole.subarray(start, end), close: async () => undefined }
}

function inFile(file: FileHandle, known: StoredFile): Gathered {
  return {
    ...known,
    async part(start, end) {
      const buffer = Buffer.alloc(end - start)
      for (let at = 0; at < buffer.length; ) {
        const { bytesRead } = await onDisk(file.read(buffer, at, buffer.length - at, start + at))
        if (bytesRead === 0) throw diskFault(undefined)
        at += bytesRead
      }
      return buffer
    },
    close: () => file.close(),
  }
}

async function openNameless(): Promise<FileHandle> {
  const path = join(tmpdir(), `gantry-upload-${randomUUID()}`)
  const file = await open(path, 'wx+', 0o600)
  await rm(path)
  return file
}

function onDisk<T>(work: Promise<T>): Promise<T> {
  return work.catch((cause: unknown) => {
    throw diskFault(cause)
  })
}

function diskFault(cause: unknown): ToolError {
  const message = `The folder for temporary files, ${tmpdir()}, is full or cannot be written.`
  return new ToolError('STORE_UNAVAILABLE', message, { cause })
}
