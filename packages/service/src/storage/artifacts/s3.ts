import { createHash, createHmac } from 'node:crypto'
import { Readable } from 'node:stream'
import { ToolError } from '@gantry/contract'
import { within } from '@gantry/core/internal/resilience/abort'
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
import { isAbsent, noBucket, placeOf, type S3Location, s3Calls, unreachable, wrongAnswer } from './s3/client.ts'
import { gather, upload } from './s3/upload.ts'

const longestLinkMs = 300_000

/**
 * Stores artifacts as objects of a bucket: `prefix/ab/abcd…`, by the digits of the digest. The SDK is loaded with the
 * first request, and its connections do not keep the process alive.
 * - Errors: CONFIG_INVALID at once for invalid options. STORE_UNAVAILABLE is retryable when the server is unreachable
 *   or slow, and not when it refuses the key or the bucket.
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
    place: async () => JSON.stringify([options.endpoint ?? null, options.bucket, options.prefix ?? null]),
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
      // HTTP has no empty range, so the first byte is requested.
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

function keyOf({ prefix }: S3Location, digest: string): string | undefined {
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

/** The signal of an operation that callers cannot abort; its time limit still applies. */
function never(): AbortSignal {
  return new AbortController().signal
}

export interface BodyOptions {
  readonly signal: AbortSignal
  /** Limit for the next chunk. */
  readonly timeoutMs: number
  readonly check: ContentCheck
  /** Converts the error of a broken or stalled connection for the reader. */
  fault(cause: unknown): Error
}

/** The body of a response as a stream, which owns the connection. */
export function readBody(body: Readable, { signal, timeoutMs, check, fault }: BodyOptions): Readable {
  body.on('error', () => undefined)
  const close = async (): Promise<void> => void body.destroy()
  return checkedStream(piecesInTime(body, timeoutMs, fault), { signal, check, close })
}

async function* piecesInTime(body: Readable, timeoutMs: number, fault: BodyOptions['fault']) {
  const source: AsyncIterator<Uint8Array> = body[Symbol.asyncIterator]()
  const late = (): never => {
    throw new Error('No bytes arrived in time.')
  }
  for (;;) {
    const { value, done } = await within(timeoutMs, source.next(), late).catch((cause: unknown) => {
      throw fault(cause)
    })
    if (done) return
    yield value
  }
}

/** The `Range` header of a range; its end is inclusive. */
export function rangeHeader({ start, end }: ByteRange): string {
  return `bytes=${start}-${Number.isSafeInteger(end) ? end - 1 : ''}`
}

/** Checks that a response contains exactly the requested range. */
export function rangeCheck(range: ByteRange, header: string | undefined, place: S3Location) {
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

/** The length in the `Content-Range` of the response; undefined when it is another range. */
function lengthOf({ start, end }: ByteRange, header: string | undefined): number | undefined {
  const [, first, last, size] = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/.exec(header ?? '') ?? []
  const isAsked = Number(first) === start && Number(last) === Math.min(end, Number(size)) - 1
  return isAsked ? Number(last) - start + 1 : undefined
}

/** What a presigned URL allows. */
export interface Signed {
  readonly key: string
  /** Signed query parameters. */
  readonly query: { readonly [name: string]: string }
  readonly expiresSeconds: number
  readonly at: Date
}

/** A presigned URL to read one object (AWS Signature 4 in the query). */
export function presignedUrl(place: S3Location, { key, query, expiresSeconds, at }: Signed): string {
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

/** Object keys consist of letters, digits, `-`, `_` and `/`, and need no encoding. */
function objectUrl({ endpoint, bucket, forcePathStyle }: S3Location, key: string): URL {
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
