import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type IncomingHttpHeaders,
  sensitiveHeaders,
} from 'node:http2'
import type { Readable } from 'node:stream'
import { type ErrorCode, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import { fieldsOf, readParts } from './wire.ts'

/** One request message and the limits of the response. */
export interface CallRequest {
  /** `package.Service/Method`. */
  readonly method: string
  readonly message: Buffer
  readonly metadata: { readonly [name: string]: string }
  /** The size limit of one response message. */
  readonly maxBytes: number
  readonly signal: AbortSignal
}

/** The header limit of HTTP/2; the pipeline truncates a message after redaction. */
const longestMessage = 65_536

/** The response of the server so far. */
interface ResponseState {
  /** Whether the server responded at all, which it does only after it accepted the call. */
  begun: boolean
  status: GrpcStatus | undefined
  error: Error | undefined
}

/**
 * One call over an open session: one request message, any number of response messages, then the status. Returning early
 * or an abort cancels it at the server. Throws the signal's reason, RESULT_TOO_LARGE, or the error of `statusError`.
 */
export async function* exchange(session: ClientHttp2Session, request: CallRequest): AsyncGenerator<Buffer, void> {
  const { signal } = request
  const stream = begin(session, request)
  const response: ResponseState = { begun: false, status: undefined, error: undefined }
  const closed = listen(stream, response)
  const cancel = (): void => stream.close(constants.NGHTTP2_CANCEL)
  const leave = onAbort(signal, cancel)
  let whole = false
  try {
    stream.end(framed(request.message))
    yield* messagesOf(stream, request.maxBytes)
    await closed
    whole = true
  } catch (error) {
    if (ToolError.is(error)) throw error
    response.error ??= error instanceof Error ? error : undefined
  } finally {
    leave()
    if (!stream.closed) cancel()
  }
  signal.throwIfAborted()
  if (response.status?.code === 0 && whole) return
  const status = response.status?.code === 0 ? undefined : response.status
  throw statusError(
    status ?? brokenStatus(session, stream, response),
    status === undefined ? response.error : undefined,
  )
}

function begin(session: ClientHttp2Session, { method, metadata }: CallRequest): ClientHttp2Stream {
  try {
    return session.request({
      ...metadata,
      ':method': 'POST',
      ':path': `/${method}`,
      te: 'trailers',
      'content-type': 'application/grpc',
      'user-agent': 'gantry',
      'grpc-accept-encoding': 'identity',
      // Values of different callers must not share the compression context of one connection.
      [sensitiveHeaders]: Object.keys(metadata),
    })
  } catch (error) {
    throw new ToolError('BACKEND_UNAVAILABLE', 'The connection has ended.', { cause: error })
  }
}

/** Records headers and trailers; resolves when the stream has closed. */
function listen(stream: ClientHttp2Stream, response: ResponseState): Promise<void> {
  stream.on('error', (error) => {
    response.error ??= error
  })
  stream.once('response', (headers) => {
    response.begun = true
    response.status = statusOf(headers) ?? foreignStatus(headers)
    if (response.status !== undefined && !('grpc-status' in headers)) stream.close(constants.NGHTTP2_CANCEL)
  })
  stream.once('trailers', (trailers) => {
    response.status ??= statusOf(trailers) ?? { code: 2, message: 'The server ended the call without a status.' }
  })
  return new Promise((resolve) => stream.once('close', resolve))
}

/** The status in headers or trailers, if there is one. */
function statusOf(headers: IncomingHttpHeaders): GrpcStatus | undefined {
  const text = headers['grpc-status']
  if (text === undefined) return undefined
  const code = /^\d{1,2}$/.test(String(text)) ? Number(text) : 2
  const details = headers['grpc-status-details-bin']
  return {
    code,
    message: decoded(String(headers['grpc-message'] ?? '').slice(0, longestMessage)),
    ...(typeof details === 'string' ? { details: Buffer.from(details, 'base64') } : {}),
  }
}

/** The status of a response that is not gRPC, such as a proxy's error page. */
function foreignStatus(headers: IncomingHttpHeaders): GrpcStatus | undefined {
  const http = Number(headers[':status'])
  if (http === 200 && /^application\/grpc(?:\+proto)?(?:;|$)/.test(headers['content-type'] ?? '')) return undefined
  const codes: { readonly [status: number]: number } = {
    400: 13,
    401: 16,
    403: 7,
    404: 12,
    429: 14,
    502: 14,
    503: 14,
    504: 14,
  }
  return { code: codes[http] ?? 2, message: `The server answered with HTTP ${http} instead of gRPC.` }
}

/** The status of a call that ended without one. */
function brokenStatus(session: ClientHttp2Session, stream: ClientHttp2Stream, { begun }: ResponseState): GrpcStatus {
  const { rstCode } = stream
  const refused = !begun && (rstCode === constants.NGHTTP2_REFUSED_STREAM || stream.id === undefined)
  if (refused) return { code: 14, message: 'The server refused the call before processing it.', unsent: true }
  if (session.destroyed) return { code: 14, message: 'The connection broke before the call had ended.' }
  const codes = new Map([
    [constants.NGHTTP2_CANCEL, 1],
    [constants.NGHTTP2_ENHANCE_YOUR_CALM, 8],
    [constants.NGHTTP2_INADEQUATE_SECURITY, 7],
  ])
  return { code: codes.get(rstCode) ?? 13, message: 'The server reset the call without a status.' }
}

/** A framed message: the compression flag 0, the length, the bytes. */
function framed(message: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

/** Decodes the percent-encoded `grpc-message`; invalid encoding is returned unchanged. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const headBytes = 5

/** Splits a gRPC body into messages; refuses a message over the limit by its length prefix. */
async function* messagesOf(body: Readable, maxBytes: number): AsyncGenerator<Buffer, void> {
  let part = Buffer.alloc(headBytes)
  let filled = 0
  let inHead = true
  // Returning does not destroy the stream: `exchange` resets it with the right code.
  for await (const piece of body.iterator({ destroyOnReturn: false })) {
    const chunk: Buffer = piece
    for (let at = 0; at < chunk.length || filled === part.length; ) {
      const taken = chunk.copy(part, filled, at)
      at += taken
      filled += taken
      if (filled < part.length) break
      const whole = part
      if (!inHead) yield whole
      part = Buffer.allocUnsafe(inHead ? lengthOf(whole, maxBytes) : headBytes)
      filled = 0
      inHead = !inHead
    }
  }
  if (filled > 0 || !inHead) throw new Error('The body ends inside a message.')
}

function lengthOf(head: Buffer, maxBytes: number): number {
  const length = head.readUInt32BE(1)
  if (head[0] !== 0)
    throw new ToolError('BACKEND_FAILED', 'The server sent a compressed message, which the client does not accept.')
  if (length <= maxBytes) return length
  throw new ToolError(
    'RESULT_TOO_LARGE',
    `The server sent a message of ${length} bytes; maxResponseBytes is ${maxBytes}.`,
  )
}

/** How a call ended, as the server said or as the broken connection means. */
interface GrpcStatus {
  readonly code: number
  readonly message: string
  /** `google.rpc.Status`, when the server sent one. */
  readonly details?: Buffer
  /** Set when the server certainly did not begin: the call never left, or was refused by HTTP/2 itself. */
  readonly unsent?: boolean
}

interface Row {
  readonly name: string
  readonly code: ErrorCode
  readonly retryable?: boolean
}

/** The error code of each status. Only a refusal by HTTP/2 proves that nothing ran; a status of the server does not. */
export const statusTable: readonly Row[] = [
  { name: 'OK', code: 'BACKEND_FAILED' },
  { name: 'CANCELLED', code: 'BACKEND_FAILED' },
  { name: 'UNKNOWN', code: 'BACKEND_FAILED' },
  { name: 'INVALID_ARGUMENT', code: 'BACKEND_FAILED' },
  { name: 'DEADLINE_EXCEEDED', code: 'BACKEND_FAILED', retryable: true },
  { name: 'NOT_FOUND', code: 'BACKEND_FAILED' },
  { name: 'ALREADY_EXISTS', code: 'BACKEND_FAILED' },
  { name: 'PERMISSION_DENIED', code: 'DENIED' },
  { name: 'RESOURCE_EXHAUSTED', code: 'RATE_LIMITED' },
  { name: 'FAILED_PRECONDITION', code: 'BACKEND_FAILED' },
  { name: 'ABORTED', code: 'BACKEND_FAILED', retryable: true },
  { name: 'OUT_OF_RANGE', code: 'BACKEND_FAILED' },
  { name: 'UNIMPLEMENTED', code: 'BACKEND_FAILED' },
  { name: 'INTERNAL', code: 'BACKEND_FAILED' },
  { name: 'UNAVAILABLE', code: 'BACKEND_FAILED', retryable: true },
  { name: 'DATA_LOSS', code: 'BACKEND_FAILED' },
  { name: 'UNAUTHENTICATED', code: 'DENIED' },
]
const unknown: Row = { name: 'UNKNOWN', code: 'BACKEND_FAILED' }
const retryInfo = 'google.rpc.RetryInfo'
const longestWaitMs = 86_400_000

/** The error for a status that is not OK; the message is the server's own. */
function statusError(status: GrpcStatus, cause?: unknown): ToolError {
  const { name, code, retryable } = statusTable[status.code] ?? unknown
  const message = status.message === '' ? `The server answered ${name}.` : status.message
  const retryAfterMs = status.details === undefined ? undefined : retryDelay(status.details)
  const details = { grpc: { status: status.code, name }, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }
  const facts = { details, ...(cause === undefined ? {} : { cause }) }
  if (status.unsent === true) return new ToolError('BACKEND_UNAVAILABLE', message, facts)
  return new ToolError(code, message, {
    ...facts,
    effect: code === 'DENIED' ? 'none' : 'possible',
    ...(retryable === undefined ? {} : { retryable }),
  })
}

/** Whether an error is this status of a server. */
export function isStatus(error: unknown, name: string): boolean {
  if (!ToolError.is(error)) return false
  const grpc = error.details?.grpc
  return isObject(grpc) && grpc.name === name
}

/** The wait that `google.rpc.RetryInfo` asks for; details that cannot be read say nothing. */
function retryDelay(details: Buffer): number | undefined {
  try {
    for (const any of readParts(details).all(3)) {
      const parts = readParts(any)
      const info = parts.all(2).at(-1)
      const delay = info === undefined ? undefined : readParts(info).all(1).at(-1)
      if (delay === undefined || !parts.text(1).endsWith(`/${retryInfo}`)) continue
      let ms = 0
      for (const { number, value } of fieldsOf(delay)) {
        if (typeof value === 'bigint') ms += Number(BigInt.asIntN(64, value)) * (number === 1 ? 1_000 : 1e-6)
      }
      return Math.min(Math.max(0, Math.ceil(ms)), longestWaitMs)
    }
  } catch {
    return undefined
  }
  return undefined
}
