import { createHash, createHmac } from 'node:crypto'
import { Readable } from 'node:stream'
import { ToolError } from '@gantry/contract'
import type { S3Options } from '../../config/broker-settings.ts'
import type { ArtifactStore, ByteRange } from './artifact-store.ts'
import {
  attachment,
  type ContentCheck,
  checkedStream,
  corrupted,
  createDigest,
  digitsOf,
  notThere,
  passiveType,
} from './content.ts'
import { s3Calls } from './s3/client.ts'
import { isAbsent, noBucket, unreachable, wrongAnswer } from './s3/faults.ts'
import { placeOf, type S3Place } from './s3/options.ts'
import { gather, upload } from './s3/upload.ts'

const longestLinkMs = 300_000

/**
 * Keeps artifacts as objects of a bucket: `prefix/ab/abcd…`, by the digits of the digest; nothing else becomes a key. The
 * library and its connections are there from the first request on, and keep no process alive.
 * - Errors: CONFIG_INVALID at once for wrong options. STORE_UNAVAILABLE may be tried again when the server is away or
 *   slow, and not when it refuses the key or the bucket.
 */
export function s3Artifacts(options: S3Options): ArtifactStore {
  const place = placeOf(options)
  const call = s3Calls(place)
  const objectOf = (digest: string) => {
    const key = keyOf(place, digest)
    return key === undefined ? undefined : { Bucket: place.bucket, Key: key }
  }
  return {
    kind: 's3',
    async put(content, { maxBytes, signal }) {
      signal.throwIfAborted()
      const gathered = await gather(content, { maxBytes, signal })
      try {
        const { digest, bytes } = gathered
        await upload(gathered, { call, place, signal, key: keyOf(place, digest) ?? '' })
        return { digest, bytes }
      } catch (error) {
        throw isAbsent(error) ? noBucket(place) : error
      } finally {
        await gathered.close()
      }
    },
    async has(digest, signal) {
      signal.throwIfAborted()
      const object = objectOf(digest)
      if (object === undefined) return false
      return call((s3, sending) => s3.headObject(object, sending), signal).then(
        () => true,
        (error: unknown) => {
          if (isAbsent(error)) return false
          throw error
        },
      )
    },
    async read(digest, range, signal) {
      signal.throwIfAborted()
      const object = objectOf(digest)
      if (object === undefined) throw notThere(digest)
      // A range of no bytes cannot be asked for; the first byte stands for it.
      const asked = range !== undefined && range.end <= range.start ? { start: 0, end: 1 } : range
      const Range = asked === undefined ? undefined : rangeHeader(asked)
      const found = await call((s3, sending) => s3.getObject({ ...object, Range }, sending), signal).catch(
        (error: unknown) => {
          if (isBeyondTheEnd(error)) return undefined
          throw isAbsent(error) ? notThere(digest, error) : error
        },
      )
      const body = found?.Body as Readable | undefined
      if (body === undefined || asked !== range) {
        body?.destroy()
        return Readable.from([])
      }
      const check = range === undefined ? digestCheck(digest) : rangeCheck(range, found?.ContentRange, place)
      const { timeoutMs } = place
      return readBody(body, { signal, timeoutMs, check, fault: (cause) => unreachable(cause, place) })
    },
    async remove(digest) {
      const object = objectOf(digest)
      if (object === undefined) return
      await call((s3, sending) => s3.deleteObject(object, sending), never()).catch((error: unknown) => {
        if (!isAbsent(error)) throw error
      })
    },
    async *list(olderThanMs) {
      const before = Date.now() - olderThanMs
      let ContinuationToken: string | undefined
      do {
        const asked = { Bucket: place.bucket, Prefix: `${place.prefix}/`, ContinuationToken }
        const page = await call((s3, sending) => s3.listObjectsV2(asked, sending), never())
        for (const { Key = '', LastModified } of page.Contents ?? []) {
          const digest = `sha256:${Key.slice(-64)}`
          if (keyOf(place, digest) === Key && Number(LastModified) < before) yield digest
        }
        ContinuationToken = page.IsTruncated === true ? page.NextContinuationToken : undefined
      } while (ContinuationToken !== undefined)
    },
    async presign(digest, { name, mimeType, expiresMs }) {
      const key = keyOf(place, digest)
      if (key === undefined) throw notThere(digest)
      const expiresSeconds = Math.max(1, Math.floor(Math.min(expiresMs, longestLinkMs) / 1_000))
      const query = {
        'response-cache-control': 'private, no-store',
        'response-content-disposition': attachment(name),
        'response-content-type': passiveType(mimeType),
      }
      return presignedUrl(place, { key, query, expiresSeconds, at: new Date() })
    },
  }
}

function keyOf({ prefix }: S3Place, digest: string): string | undefined {
  const digits = digitsOf(digest)
  return digits === undefined ? undefined : `${prefix}/${digits.slice(0, 2)}/${digits}`
}

function digestCheck(expected: string) {
  const digest = createDigest()
  return {
    add: digest.add,
    end(): void {
      if (digest.end() !== expected) throw corrupted(expected)
    },
  }
}

function isBeyondTheEnd(error: unknown): boolean {
  return ToolError.is(error) && error.details?.status === 416
}

/** The signal of what nobody can abort; it has a time limit all the same. */
function never(): AbortSignal {
  return new AbortController().signal
}

export interface BodyOptions {
  readonly signal: AbortSignal
  /** For the next piece. */
  readonly timeoutMs: number
  readonly check: ContentCheck
  /** What a broken or a silent connection is to the reader. */
  fault(cause: unknown): Error
}

/** The body of an answer as a stream of our own, which owns the connection from here on. */
export function readBody(body: Readable, { signal, timeoutMs, check, fault }: BodyOptions): Readable {
  body.on('error', () => undefined)
  const close = async (): Promise<void> => void body.destroy()
  return checkedStream(piecesInTime(body, timeoutMs, fault), { signal, check, close })
}

async function* piecesInTime(body: Readable, timeoutMs: number, fault: BodyOptions['fault']) {
  const source: AsyncIterator<Uint8Array> = body[Symbol.asyncIterator]()
  for (;;) {
    const { value, done } = await inTime(source.next(), timeoutMs).catch((cause: unknown) => {
      throw fault(cause)
    })
    if (done) return
    yield value
  }
}

/** Counts the time only while somebody waits for the piece. */
async function inTime<T>(work: Promise<T>, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('No bytes came in time.')), timeoutMs)
  })
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}

/** A range as a header, which names the last byte and not the one behind it. */
export function rangeHeader({ start, end }: ByteRange): string {
  return `bytes=${start}-${Number.isSafeInteger(end) ? end - 1 : ''}`
}

/** Holds the bytes of an answer against the range that was asked for: not one more or less, and from the right place. */
export function rangeCheck(range: ByteRange, header: string | undefined, place: S3Place) {
  const expected = lengthOf(range, header)
  let bytes = 0
  return {
    add(piece: Uint8Array): void {
      bytes += piece.length
      if (expected === undefined || bytes > expected) throw wrongAnswer(place)
    },
    end(): void {
      if (bytes !== expected) throw wrongAnswer(place)
    },
  }
}

/** How many bytes come, from the `Content-Range` of the answer; undefined when it is another range. */
function lengthOf({ start, end }: ByteRange, header: string | undefined): number | undefined {
  const [, first, last, size] = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/.exec(header ?? '') ?? []
  const isAsked = Number(first) === start && Number(last) === Math.min(end, Number(size)) - 1
  return isAsked ? Number(last) - start + 1 : undefined
}

/** What a URL allows to whoever has it. */
export interface Signed {
  readonly key: string
  /** Parameters of the request, which cannot be changed. */
  readonly query: { readonly [name: string]: string }
  readonly expiresSeconds: number
  readonly at: Date
}

/** A URL by which one object can be read for a while without a key (AWS Signature 4 in the query). */
export function presignedUrl(place: S3Place, { key, query, expiresSeconds, at }: Signed): string {
  const { region, accessKeyId, secretAccessKey, sessionToken } = place
  const url = objectUrl(place, key)
  const time = at.toISOString().replace(/[-:]|\.\d{3}/g, '')
  const scope = `${time.slice(0, 8)}/${region}/s3/aws4_request`
  const all = sorted({
    ...query,
    'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
    'X-Amz-Credential': `${accessKeyId}/${scope}`,
    'X-Amz-Date': time,
    'X-Amz-Expires': String(expiresSeconds),
    ...(sessionToken === undefined ? {} : { 'X-Amz-Security-Token': sessionToken }),
    'X-Amz-SignedHeaders': 'host',
  })
  const request = ['GET', url.pathname, all, `host:${url.host}\n`, 'host', 'UNSIGNED-PAYLOAD'].join('\n')
  const digest = createHash('sha256').update(request).digest('hex')
  const toSign = ['AWS4-HMAC-SHA256', time, scope, digest].join('\n')
  const signingKey = scope.split('/').reduce<string | Buffer>(hmac, `AWS4${secretAccessKey}`)
  return `${url.origin}${url.pathname}?${all}&X-Amz-Signature=${hmac(signingKey, toSign).toString('hex')}`
}

/** Keys are made of letters, digits, `-`, `_` and `/`, and need no encoding. */
function objectUrl({ endpoint, bucket, forcePathStyle }: S3Place, key: string): URL {
  if (forcePathStyle) return new URL(`${endpoint}/${bucket}/${key}`)
  const { protocol, host } = new URL(endpoint)
  return new URL(`${protocol}//${bucket}.${host}/${key}`)
}

function sorted(query: { readonly [name: string]: string }): string {
  const pairs = Object.entries(query).map(([name, value]) => `${encode(name)}=${encode(value)}`)
  return pairs.sort((a, b) => (a < b ? -1 : 1)).join('&')
}

function encode(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (it) => `%${it.charCodeAt(0).toString(16).toUpperCase()}`)
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}
