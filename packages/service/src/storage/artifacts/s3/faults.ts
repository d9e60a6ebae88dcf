import { ToolError } from '@gantry/contract'
import type { S3Place } from './options.ts'

type Where = Pick<S3Place, 'endpoint' | 'bucket'>

/** What an answer of the server, or none, is to us; with its status in `details`. What the server writes is not shown. */
export function faultOf(error: unknown, where: Where): ToolError {
  if (ToolError.is(error)) return error
  const status = statusOf(error)
  return status === undefined ? unreachable(error, where) : answered(status, codeOf(error), where)
}

/** No answer in time, or a broken one. */
export function unreachable(cause: unknown, { endpoint, bucket }: Where): ToolError {
  const message = `The S3 bucket ${bucket} at ${endpoint} cannot be reached or does not answer in time.`
  return new ToolError('STORE_UNAVAILABLE', message, { cause: isOfSystem(cause) ? cause : undefined })
}

/** An answer that is not what was asked for. */
export function wrongAnswer({ endpoint, bucket }: Where): ToolError {
  return new ToolError('STORE_UNAVAILABLE', `The S3 bucket ${bucket} at ${endpoint} does not answer what was asked.`)
}

export function noBucket({ endpoint, bucket }: Where): ToolError {
  const message = `The S3 bucket ${bucket} at ${endpoint} does not exist; make it, or correct \`s3.bucket\`.`
  return new ToolError('STORE_UNAVAILABLE', message, { retryable: false })
}

/** Whether an object is not there. */
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
    return broken(`${place} refuses the key; correct it, what it may do, or the clock of this machine.`)
  }
  if ((status >= 300 && status < 400) || code === 'AuthorizationHeaderMalformed') {
    return broken(`${place} is elsewhere; correct \`s3.region\` and \`s3.endpoint\`.`)
  }
  const message = `${place} answers with an error${code === '' ? '' : ` (${code})`}.`
  return status >= 500 || passing.has(status) || passing.has(code)
    ? new ToolError('STORE_UNAVAILABLE', message, options)
    : broken(message)
}

/** What the library calls it; an answer to HEAD has no words of its own. */
const absent: ReadonlySet<string> = new Set(['NoSuchKey', 'NotFound', 'Unknown', 'UnknownError', ''])

/** Errors that are the request's in form, and in truth those of the moment or of the way. */
const passing: ReadonlySet<unknown> = new Set([
  ...[408, 429],
  ...['BadDigest', 'IncompleteBody', 'NoSuchUpload', 'RequestTimeout', 'XAmzContentSHA256Mismatch'],
])

function statusOf(error: unknown): number | undefined {
  const { $metadata } = (error ?? {}) as { readonly $metadata?: { readonly httpStatusCode?: unknown } }
  return typeof $metadata?.httpStatusCode === 'number' ? $metadata.httpStatusCode : undefined
}

/** The server chose it, so only what looks like a code is one. */
function codeOf(error: unknown): string {
  const { name } = error as Error
  return /^[A-Za-z0-9]{1,64}$/.test(name) && name !== 'Error' ? name : ''
}

function isOfSystem(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error
}
