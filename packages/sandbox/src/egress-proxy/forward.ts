import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { ToolError } from '@gantry/contract'
import type { EgressResponse } from '@gantry/core/internal/egress/egress'
import { isFramingHeader } from '@gantry/core/internal/egress/headers'
import {
  badRequest,
  counted,
  type Meter,
  otherHost,
  overLimit,
  type ProxiedRequest,
  type ProxyPorts,
  scopeOf,
} from './connection.ts'
import { isNamedBy, parsePath, parseTarget, type RequestTarget } from './origins.ts'
import {
  type BrokeredSecret,
  insertIntoBody,
  insertIntoHeaders,
  insertIntoQuery,
  removeFromBody,
  removeFromBytes,
  removeFromHeaders,
  secretsFor,
  withoutRange,
} from './secrets.ts'

/** Bodies up to this size are buffered, because many servers refuse a body without a length. */
const wholeBytes = 1_048_576

/** Responses up to this size are buffered while secrets are removed, so that their length can be sent. */
const clearedBytes = 65_536

/**
 * Forwards a request through egress and its response to the sandbox; redirects are left to the client. Secrets are
 * inserted and removed again for origins that may receive them; every other origin gets the placeholder unchanged.
 */
export async function forward(
  ports: ProxyPorts,
  proxied: ProxiedRequest,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { egress, limits } = ports
  const { signal, meter } = proxied
  const { url, authority } = targetOf(request, proxied)
  const secrets = secretsFor(ports.secrets, url.protocol.slice(0, -1), authority)
  const headers = headersOf(request)
  const body = bodyOf(request, response, proxied, limits.upBytes)
  const pieces = body === undefined ? undefined : insertIntoBody(body.pieces, headers, secrets)
  const answer = await egress.request({
    ...scopeOf(ports),
    signal,
    method: request.method ?? '',
    url: insertIntoQuery(url, secrets),
    headers: secrets.length === 0 ? headers : withoutRange(insertIntoHeaders(headers, secrets)),
    ...(pieces === undefined ? {} : { body: body?.whole === true ? await buffer(pieces) : pieces }),
    // The idle timer of the connection applies while no bytes arrive.
    maxBytes: limits.downBytes,
    headersMs: 0,
    idleMs: 0,
  })
  try {
    signal.throwIfAborted()
    response.sendDate = false
    if (!proxied.secure) response.shouldKeepAlive = false
    const sent = secrets.length === 0 ? asSent(answer) : await cleared(answer, request.method, secrets, proxied)
    response.writeHead(answer.status, sent.headers)
    proxied.answered()
    // Redaction may hold back the first bytes of the body; the client gets the head at once.
    if (secrets.length > 0 && sent.whole === undefined) response.flushHeaders()
    if (sent.whole === undefined) await pipeline(counted(sent.body, meter.down), response, { signal })
    else await endWith(response, sent.whole, meter)
  } finally {
    answer.cancel()
  }
}

/** The response for the sandbox; `whole` when its body is buffered. */
interface Sent {
  readonly headers: string[]
  readonly body: AsyncIterable<Uint8Array>
  readonly whole?: Uint8Array
}

function asSent({ headers, body }: EgressResponse): Sent {
  return { headers: answerHeaders(headers), body }
}

/** A response with placeholders in place of secrets, which changes its length. */
async function cleared(
  answer: EgressResponse,
  method = '',
  secrets: readonly BrokeredSecret[],
  proxied: ProxiedRequest,
): Promise<Sent> {
  const coding = answer.headers.get('transfer-encoding')
  if (coding !== null && !/^chunked$/i.test(coding)) throw unreadable()
  const length = answer.headers.get('content-length')
  const headers = removeFromHeaders(answerHeaders(answer.headers), secrets)
  const body = removeFromBody(
    counted(answer.body, () => proxied.moved()),
    secrets,
  )
  if (method === 'HEAD' || length === null) return { headers, body }
  const rest = headers.filter((_, at) => headers[at - (at % 2)] !== 'content-length')
  if (Number(length) > clearedBytes) return { headers: rest, body }
  const whole = removeFromBytes(await answer.bytes(), secrets)
  return { headers: [...rest, 'content-length', String(whole.length)], body: answer.body, whole }
}

/** Egress decodes a content encoding, but not a transfer encoding. */
function unreadable(): ToolError {
  return new ToolError('BACKEND_FAILED', 'The server sent a body with an unsupported transfer encoding.')
}

function endWith(response: ServerResponse, bytes: Uint8Array, meter: Meter): Promise<void> {
  meter.down(bytes.byteLength)
  const { promise, resolve } = Promise.withResolvers<void>()
  response.once('close', resolve)
  response.end(bytes, resolve)
  return promise
}

/** The target of a request; throws INPUT_INVALID when it is missing or ambiguous. */
export function targetOf(request: IncomingMessage, { inside, secure }: ProxiedRequest): RequestTarget {
  const text = request.url ?? ''
  const target = inside === undefined ? parseTarget(text) : parsePath(text, inside, secure)
  const form = inside === undefined ? 'GET http://host/path' : 'GET /path'
  if (target === undefined) throw badRequest(`The target of the request is not as in "${form}".`)
  if (!isNamedBy(request.headersDistinct.host, target.authority, target.usualPort)) throw otherHost()
  // Without an upgrade listener Node emits an upgrade as a request.
  if (request.headers.upgrade !== undefined && !secure) {
    throw new ToolError('EGRESS_DENIED', 'A connection cannot be upgraded to another protocol.')
  }
  return target
}

/** The body of a request, if it has one; throws when its declared length is too long. */
function bodyOf(
  request: IncomingMessage,
  response: ServerResponse,
  { meter }: ProxiedRequest,
  most: number,
): { readonly pieces: AsyncIterable<Uint8Array>; readonly whole: boolean } | undefined {
  const { 'content-length': length, 'transfer-encoding': coding } = request.headers
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') throw badRequest('The body is not only chunked.')
  if (coding === undefined && !(Number(length) > 0)) return undefined
  if (Number(length) > most) throw overLimit(`A connection may carry ${most} bytes from the sandbox.`)
  return { pieces: counted(piecesOf(request, response), meter.up), whole: Number(length) <= wholeBytes }
}

/** Chunks as they arrive; 100 Continue is sent only when egress reads the body. */
async function* piecesOf(request: IncomingMessage, response: ServerResponse): AsyncGenerator<Uint8Array, void> {
  if (/^100-continue$/i.test(request.headers.expect ?? '')) response.writeContinue()
  yield* request
}

/** The headers for the server: without hop-by-hop headers, and with `accept-encoding: identity`. */
export function headersOf(request: IncomingMessage): { readonly [name: string]: string } {
  const dropped = named(request.headers.connection)
  const kept = Object.entries(request.headersDistinct).filter(([name]) => !isFramingHeader(name) && !dropped.has(name))
  const joined = kept.map(([name, values = []]) => [name, values.join(name === 'cookie' ? '; ' : ', ')] as const)
  // Egress decodes every encoding, so that ranges and lengths would no longer match the encoded body.
  return Object.fromEntries([...joined, ['accept-encoding', 'identity']])
}

/** Names and values alternating. Egress has removed the length of a decoded body. */
function answerHeaders(headers: Headers): string[] {
  const dropped = named(headers.get('connection') ?? undefined)
  const stays = (name: string): boolean => name === 'content-length' || !(isFramingHeader(name) || dropped.has(name))
  return [...headers].filter(([name]) => stays(name)).flat()
}

/** Headers that a Connection header declares hop-by-hop. */
function named(connection = ''): ReadonlySet<string> {
  return new Set(connection.split(',').map((name) => name.trim().toLowerCase()))
}
