import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type IncomingHttpHeaders,
  sensitiveHeaders,
} from 'node:http2'
import type { Readable } from 'node:stream'
import { ToolError } from '@gantry/contract'
import { type GrpcStatus, statusError } from './status.ts'

/** One message to a method, and what the answers may be. */
export interface CallRequest {
  /** `package.Service/Method`. */
  readonly method: string
  readonly message: Buffer
  readonly metadata: { readonly [name: string]: string }
  /** Bytes of one message of the answer. */
  readonly maxBytes: number
  readonly signal: AbortSignal
}

/** What HTTP/2 lets a header have; the pipeline cuts a message after secrets are out. */
const longestMessage = 65_536

/** What the server has said so far. */
interface Heard {
  /** Whether it said anything, which it does only after it took the call. */
  begun: boolean
  status: GrpcStatus | undefined
  error: Error | undefined
}

/**
 * One call over an open session: one message out, any number in, then the status. Leaving it early, or the signal,
 * cancels it at the server. Throws the signal's reason, RESULT_TOO_LARGE, or what `statusError` makes of the end.
 */
export async function* exchange(session: ClientHttp2Session, request: CallRequest): AsyncGenerator<Buffer, void> {
  const { signal } = request
  const stream = begin(session, request)
  const heard: Heard = { begun: false, status: undefined, error: undefined }
  const closed = listen(stream, heard)
  const cancel = (): void => stream.close(constants.NGHTTP2_CANCEL)
  signal.addEventListener('abort', cancel, { once: true })
  let whole = false
  try {
    if (signal.aborted) cancel()
    stream.end(framed(request.message))
    yield* messagesOf(stream, request.maxBytes)
    await closed
    whole = true
  } catch (error) {
    if (ToolError.is(error)) throw error
    heard.error ??= error instanceof Error ? error : undefined
  } finally {
    signal.removeEventListener('abort', cancel)
    if (!stream.closed) cancel()
  }
  signal.throwIfAborted()
  if (heard.status?.code === 0 && whole) return
  const told = heard.status?.code === 0 ? undefined : heard.status
  throw statusError(told ?? brokenStatus(session, stream, heard), told === undefined ? heard.error : undefined)
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
      // Values of different callers must not meet in the compression of one connection.
      [sensitiveHeaders]: Object.keys(metadata),
    })
  } catch (error) {
    throw new ToolError('BACKEND_UNAVAILABLE', 'The connection has ended.', { cause: error })
  }
}

/** Notes what the server says beside its messages; resolves when the stream has closed. */
function listen(stream: ClientHttp2Stream, heard: Heard): Promise<void> {
  stream.on('error', (error) => {
    heard.error ??= error
  })
  stream.once('response', (headers) => {
    heard.begun = true
    heard.status = statusOf(headers) ?? foreignStatus(headers)
    if (heard.status !== undefined && !('grpc-status' in headers)) stream.close(constants.NGHTTP2_CANCEL)
  })
  stream.once('trailers', (trailers) => {
    heard.status ??= statusOf(trailers) ?? { code: 2, message: 'The server ended the call without a status.' }
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

/** What an answer means that is not gRPC: a proxy's error page, a web server. */
function foreignStatus(headers: IncomingHttpHeaders): GrpcStatus | undefined {
  const http = headers[':status'] as unknown as number
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

/** What a call means that ended without a status. */
function brokenStatus(session: ClientHttp2Session, stream: ClientHttp2Stream, { begun }: Heard): GrpcStatus {
  const { rstCode } = stream
  const refused = !begun && (rstCode === constants.NGHTTP2_REFUSED_STREAM || stream.id === undefined)
  if (refused) return { code: 14, message: 'The server did not take the call.', unsent: true }
  if (session.destroyed) return { code: 14, message: 'The connection broke before the call had ended.' }
  const codes = new Map([
    [constants.NGHTTP2_CANCEL, 1],
    [constants.NGHTTP2_ENHANCE_YOUR_CALM, 8],
    [constants.NGHTTP2_INADEQUATE_SECURITY, 7],
  ])
  return { code: codes.get(rstCode) ?? 13, message: 'The server broke off the call without a status.' }
}

/** A message on the wire: a byte that says it is not compressed, its length, itself. */
function framed(message: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

/** `grpc-message` is percent-encoded; text that is wrongly encoded stays as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const headBytes = 5

/** Cuts a gRPC body into messages; refuses one that says it is larger than allowed before any of it is kept. */
async function* messagesOf(body: Readable, maxBytes: number): AsyncGenerator<Buffer, void> {
  let part = Buffer.alloc(headBytes)
  let filled = 0
  let inHead = true
  // Leaving must not destroy the stream: whoever opened it cancels it, so that the server hears the right reason.
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
    throw new ToolError('BACKEND_FAILED', 'The server sent a compressed message, which was not asked for.')
  if (length <= maxBytes) return length
  throw new ToolError(
    'RESULT_TOO_LARGE',
    `The server sent a message of ${length} bytes; maxResponseBytes is ${maxBytes}.`,
  )
}
