import type { S3, S3ClientConfig } from '@aws-sdk/client-s3'
import { faultOf } from './faults.ts'
import type { S3Place } from './options.ts'

/** Sends one request, as often as it takes within its time; rejects with a ToolError, or with the signal's reason. */
export type S3Call = <T>(work: (s3: S3, options: SendOptions) => Promise<T>, signal: AbortSignal) => Promise<T>

interface SendOptions {
  readonly abortSignal: AbortSignal
}

const attempts = 3
/** A thousand names of a list, or the parts of a large upload, are less. */
const answerBytes = 4_194_304

/** Requests to one bucket. The library is loaded with the first, because it is large. */
export function s3Calls(place: S3Place): S3Call {
  let client: Promise<S3> | undefined
  return async (work, signal) => {
    signal.throwIfAborted()
    client ??= import('@aws-sdk/client-s3').then(({ S3 }) => new S3(settingsOf(place)))
    const s3 = await client
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(), place.timeoutMs)
    const abortSignal = AbortSignal.any([signal, late.signal])
    try {
      return await work(s3, { abortSignal })
    } catch (error) {
      signal.throwIfAborted()
      throw faultOf(error, place)
    } finally {
      clearTimeout(timer)
    }
  }
}

/**
 * Every setting that the library would otherwise look for in the environment, in files of the user or at the metadata
 * service of a cloud has its value here.
 */
function settingsOf(place: S3Place): S3ClientConfig {
  const { endpoint, region, forcePathStyle, timeoutMs, accessKeyId, secretAccessKey, sessionToken, ca } = place
  return {
    ...{ endpoint, region, forcePathStyle },
    credentials: { accessKeyId, secretAccessKey, ...(sessionToken === undefined ? {} : { sessionToken }) },
    ...{ maxAttempts: attempts, retryMode: 'standard', defaultsMode: 'standard' },
    requestHandler: {
      connectionTimeout: Math.ceil(timeoutMs / attempts),
      requestTimeout: Math.ceil(timeoutMs / attempts),
      throwOnRequestTimeout: true,
      ...(ca === undefined ? {} : { httpsAgent: { ca } }),
    },
    // We send checksums of our own, and check the digest of all that we read.
    ...{ requestChecksumCalculation: 'WHEN_REQUIRED', responseChecksumValidation: 'WHEN_REQUIRED' },
    ...{ authSchemePreference: ['sigv4'], sigv4aSigningRegionSet: [region], disableS3ExpressSessionAuth: true },
    ...{ useArnRegion: false, disableMultiregionAccessPoints: true, followRegionRedirects: false },
    ...{ useDualstackEndpoint: false, useFipsEndpoint: false, useAccelerateEndpoint: false },
    ...{ userAgentAppId: 'gantry', expectContinueHeader: false },
    streamCollector: collect,
  }
}

/** Reads an answer that the library understands whole; one without end would fill the memory. */
async function collect(stream: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of stream) {
    bytes += piece.length
    if (bytes > answerBytes) throw new Error('The answer is too long.')
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}
