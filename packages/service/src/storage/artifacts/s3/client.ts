import type { S3, S3ClientConfig } from '@aws-sdk/client-s3'
import { type Issue, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { S3Options } from '../../../config/broker-settings.ts'

/** Sends one request with retries, within its time limit; rejects with a ToolError, or with the signal's reason. */
export type S3Call = <T>(work: (s3: S3, options: SendOptions) => Promise<T>, signal: AbortSignal) => Promise<T>

interface SendOptions {
  readonly abortSignal: AbortSignal
}

const attempts = 3
/** Size limit of a parsed response; lists of a thousand names and of upload parts are smaller. */
const answerBytes = 4_194_304

/** Requests to one bucket. The SDK is loaded with the first, because it is large. */
export function s3Calls(place: S3Location): S3Call {
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
 * Sets every option that the SDK would otherwise read from the environment, from config files or from a cloud metadata
 * service.
 */
function settingsOf(place: S3Location): S3ClientConfig {
  const { endpoint, region, forcePathStyle, timeoutMs, accessKeyId, secretAccessKey, sessionToken, ca } = place
  return {
    endpoint,
    region,
    forcePathStyle,
    credentials: { accessKeyId, secretAccessKey, ...(sessionToken === undefined ? {} : { sessionToken }) },
    maxAttempts: attempts,
    retryMode: 'standard',
    defaultsMode: 'standard',
    requestHandler: {
      connectionTimeout: Math.ceil(timeoutMs / attempts),
      requestTimeout: Math.ceil(timeoutMs / attempts),
      throwOnRequestTimeout: true,
      ...(ca === undefined ? {} : { httpsAgent: { ca } }),
    },
    // The store sends its own checksums, and checks the digest of everything it reads.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    authSchemePreference: ['sigv4'],
    sigv4aSigningRegionSet: [region],
    disableS3ExpressSessionAuth: true,
    useArnRegion: false,
    disableMultiregionAccessPoints: true,
    followRegionRedirects: false,
    useDualstackEndpoint: false,
    useFipsEndpoint: false,
    useAccelerateEndpoint: false,
    userAgentAppId: 'gantry',
    expectContinueHeader: false,
    streamCollector: collect,
  }
}

/** Reads a response that the SDK parses as a whole, within a limit, because an endless one would fill the memory. */
async function collect(stream: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of stream) {
    bytes += piece.length
    if (bytes > answerBytes) throw new Error('The response is too long.')
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

/** Checked options with defaults. */
export interface S3Location extends S3Options {
  readonly endpoint: string
  readonly forcePathStyle: boolean
  readonly prefix: string
  readonly timeoutMs: number
}

const text = (form: RegExp, words: string) => ({
  fits: (value: unknown) => typeof value === 'string' && form.test(value),
  words,
})

// Excludes ARNs, which can name a bucket of another account.
const shapes: { readonly [key in keyof S3Options]-?: { fits(value: unknown): boolean; readonly words: string } } = {
  endpoint: { fits: isOrigin, words: 'the URL of a server, https://host or https://host:port' },
  region: text(/^[a-z0-9][a-z0-9-]{0,62}$/, 'the name of a region, such as eu-central-1'),
  bucket: text(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'the name of a bucket: 3 to 63 of a-z, 0-9, - and .'),
  accessKeyId: text(/^[\x21-\x7e]{1,128}$/, 'an access key id'),
  secretAccessKey: text(/^[\x21-\x7e]{1,256}$/, 'a secret access key'),
  sessionToken: text(/^[\x21-\x7e]{1,8192}$/, 'a session token'),
  forcePathStyle: { fits: (value) => typeof value === 'boolean', words: 'true or false' },
  prefix: text(
    /^[a-z0-9_-]{1,64}(?:\/[a-z0-9_-]{1,64}){0,7}$/i,
    'words of letters, digits, - and _, with / between them',
  ),
  ca: text(/^-----BEGIN CERTIFICATE-----/m, 'certificates in PEM'),
  timeoutMs: { fits: (value) => Number.isInteger(value) && Number(value) > 0, words: 'a whole number above 0' },
}

const required: ReadonlySet<string> = new Set(['region', 'bucket', 'accessKeyId', 'secretAccessKey'])

/** Checks the options; throws CONFIG_INVALID with paths and without values. */
export function placeOf(options: S3Options): S3Location {
  const given: { readonly [name: string]: unknown } = { ...options }
  const issues = Object.entries(shapes).flatMap(([key, { fits, words }]): Issue[] => {
    const value = given[key]
    const isFine = value === undefined ? !required.has(key) : fits(value)
    return isFine ? [] : [{ path: `/${key}`, message: `must be ${words}` }]
  })
  const [first] = issues
  if (first !== undefined) {
    const message = `Invalid S3 options: ${first.path} ${first.message}.`
    throw new ToolError('CONFIG_INVALID', message, { details: { issues } })
  }
  const { endpoint, forcePathStyle = false, prefix = 'artifacts', timeoutMs = 60_000 } = options
  const origin = endpoint === undefined ? amazon(options.region) : new URL(endpoint).origin
  return { ...options, endpoint: origin, forcePathStyle, prefix, timeoutMs }
}

function amazon(region: string): string {
  return `https://s3.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`
}

function isOrigin(value: unknown): boolean {
  const url = typeof value === 'string' ? URL.parse(value) : null
  return url !== null && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`
}

type Where = Pick<S3Location, 'endpoint' | 'bucket'>

/** Converts an error of the SDK, with the HTTP status in `details` and without any text of the server. */
function faultOf(error: unknown, where: Where): ToolError {
  if (ToolError.is(error)) return error
  const status = statusOf(error)
  return status === undefined ? unreachable(error, where) : answered(status, codeOf(error), where)
}

/** The server is unreachable, too slow, or broke the connection. */
export function unreachable(cause: unknown, { endpoint, bucket }: Where): ToolError {
  const message = `The S3 bucket ${bucket} at ${endpoint} is unreachable or does not answer in time.`
  return new ToolError('STORE_UNAVAILABLE', message, { cause: isOfSystem(cause) ? cause : undefined })
}

/** The response does not match the request. */
export function wrongAnswer({ endpoint, bucket }: Where): ToolError {
  return new ToolError(
    'STORE_UNAVAILABLE',
    `The S3 bucket ${bucket} at ${endpoint} sent a response that does not match the request.`,
  )
}

export function noBucket({ endpoint, bucket }: Where): ToolError {
  const message = `The S3 bucket ${bucket} at ${endpoint} does not exist; create it, or correct \`s3.bucket\`.`
  return new ToolError('STORE_UNAVAILABLE', message, { retryable: false })
}

/** Whether an object is missing. */
export function isAbsent(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'NOT_FOUND'
}

function answered(status: number, code: string, { endpoint, bucket }: Where): ToolError {
  const place = `The S3 bucket ${bucket} at ${endpoint}`
  const options = { details: { status }, cause: new Error(`${status} ${code}`.trim()) }
  const broken = (message: string) => new ToolError('STORE_UNAVAILABLE', message, { ...options, retryable: false })
  if (code === 'NoSuchBucket') return noBucket({ endpoint, bucket })
  if (status === 404 && absent.has(code)) return new ToolError('NOT_FOUND', `${place} has no such object.`, options)
  if (status === 401 || status === 403) {
    return broken(`${place} refuses the key; correct the key, its permissions, or the clock of this machine.`)
  }
  if ((status >= 300 && status < 400) || code === 'AuthorizationHeaderMalformed') {
    return broken(`${place} is in another region or at another endpoint; correct \`s3.region\` and \`s3.endpoint\`.`)
  }
  const message = `${place} answers with an error${code === '' ? '' : ` (${code})`}.`
  return status >= 500 || passing.has(status) || passing.has(code)
    ? new ToolError('STORE_UNAVAILABLE', message, options)
    : broken(message)
}

/** Error names of the SDK for a missing object; a response to HEAD has no body. */
const absent: ReadonlySet<string> = new Set(['NoSuchKey', 'NotFound', 'Unknown', 'UnknownError', ''])

/** Client errors (4xx) that are transient. */
const passing: ReadonlySet<unknown> = new Set([
  408,
  429,
  'BadDigest',
  'IncompleteBody',
  'NoSuchUpload',
  'RequestTimeout',
  'XAmzContentSHA256Mismatch',
])

function statusOf(error: unknown): number | undefined {
  if (!isObject(error) || !isObject(error.$metadata)) return undefined
  const { httpStatusCode } = error.$metadata
  return typeof httpStatusCode === 'number' ? httpStatusCode : undefined
}

/** The error code of the server, if it has the form of one. */
function codeOf(error: unknown): string {
  const name = error instanceof Error ? error.name : ''
  return /^[A-Za-z0-9]{1,64}$/.test(name) && name !== 'Error' ? name : ''
}

function isOfSystem(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error
}
