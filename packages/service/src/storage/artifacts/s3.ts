import { Readable } from 'node:stream'
import { ToolError } from '@gantry/contract'
import type { S3Options } from '../../config/broker-settings.ts'
import type { ArtifactStore } from './artifact-store.ts'
import { corrupted, createDigest, digitsOf, notThere } from './digest.ts'
import { attachment, passiveType } from './download-headers.ts'
import { readBody } from './s3/body.ts'
import { s3Calls } from './s3/client.ts'
import { isAbsent, noBucket, unreachable } from './s3/faults.ts'
import { gather } from './s3/gather.ts'
import { placeOf, type S3Place } from './s3/options.ts'
import { presignedUrl } from './s3/presign.ts'
import { rangeCheck, rangeHeader } from './s3/range.ts'
import { upload } from './s3/upload.ts'

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
