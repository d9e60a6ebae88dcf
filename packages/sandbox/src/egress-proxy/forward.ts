import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { ToolError } from '@gantry/contract'
import type { EgressResponse } from '@gantry/core/internal/egress/egress'
import { isFramingHeader } from '@gantry/core/internal/ids/header-names'
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

/** Bodies of this many bytes are sent as one, because many servers do not take a body without its length. */
const wholeBytes = 1_048_576

/** Answers of this many bytes are cleared of secrets as one, so that their length can be sent. */
const clearedBytes = 65_536

/**
 * Sends a request on through egress, and what comes back to the sandbox; redirects are the client's to follow. Secrets
 * go in, and come out again, where the origin may receive them; every other origin gets the placeholder as it is.
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
    ...{ ...scopeOf(ports), signal, method: request.method ?? '', url: insertIntoQuery(url, secrets) },
    headers: secrets.length === 0 ? headers : withoutRange(insertIntoHeaders(headers, secrets)),
    ...(pieces === undefined ? {} : { body: body?.whole === true ? await buffer(pieces) : pieces }),
    // The connection's own clock runs while nothing comes.
    ...{ maxBytes: limits.downBytes, headersMs: 0, idleMs: 0 },
  })
  try {
    signal.throwIfAborted()
    response.sendDate = false
    if (!proxied.secure) response.shouldKeepAlive = false
    const sent = secrets.length === 0 ? asSent(answer) : await cleared(answer, request.method, secrets, proxied)
    response.writeHead(answer.status, sent.headers)
    proxied.answered()
    // Clearing may hold back the first bytes of the body; the client gets the head at once.
    if (secrets.length > 0 && sent.whole === undefined) response.flushHeaders()
    if (sent.whole === undefined) await pipeline(counted(sent.body, meter.down), response, { signal })
    else await endWith(response, sent.whole, meter)
  } finally {
    answer.cancel()
  }
}

/** What the sandbox reads; `whole` when the body is here. */
interface Sent {
  readonly headers: string[]
  readonly body: AsyncIterable<Uint8Array>
  readonly whole?: Uint8Array
}

function asSent({ headers, body }: EgressResponse): Sent {
  return { headers: answerHeaders(headers), body }
}

/** An answer with placeholders in the place of secrets, which changes its length. */
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

/** Egress undoes the encoding of a body, but not one of the way that it came. */
function unreadable(): ToolError {
  return new ToolError('BACKEND_FAILED', 'The server sent a body in a transfer coding that cannot be read.')
}

function endWith(response: ServerResponse, bytes: Uint8Array, meter: Meter): Promise<void> {
  meter.down(bytes.byteLength)
  const { promise, resolve } = Promise.withResolvers<void>()
  response.once('close', resolve)
  response.end(bytes, resolve)
  return promise
}

/** Where a request goes; throws INPUT_INVALID when it does not say so in one way only. */
export function targetOf(request: IncomingMessage, { inside, secure }: ProxiedRequest): RequestTarget {
  const text = request.url ?? ''
  const target = inside === undefined ? parseTarget(text) : parsePath(text, inside, secure)
  const form = inside === undefined ? 'GET http://host/path' : 'GET /path'
  if (target === undefined) throw badRequest(`The target of the request is not as in "${form}".`)
  if (!isNamedBy(request.headersDistinct.host, target.authority, target.usualPort)) throw otherHost()
  // Without a listener for it Node hands it over as a request.
  if (request.headers.upgrade !== undefined && !secure) {
    throw new ToolError('EGRESS_DENIED', 'A connection may not be turned into one of another protocol.')
  }
  return target
}

/** The body of a request, if it has one; throws when it is too long from the start. */
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

/** Pieces as they come; a client that waits to be asked for them is asked only when egress wants them. */
async function* piecesOf(request: IncomingMessage, response: ServerResponse): AsyncGenerator<Uint8Array, void> {
  if (/^100-continue$/i.test(request.headers.expect ?? '')) response.writeContinue()
  yield* request
}

/** The headers for the server: without those of this connection, and asking for a body that needs no decoding. */
export function headersOf(request: IncomingMessage): { readonly [name: string]: string } {
  const dropped = named(request.headers.connection)
  const kept = Object.entries(request.headersDistinct).filter(([name]) => !isFramingHeader(name) && !dropped.has(name))
  const joined = kept.map(([name, values = []]) => [name, values.join(name === 'cookie' ? '; ' : ', ')] as const)
  // Egress decodes whatever comes, so that a part of a file, or its length, would no longer be what the server meant.
  return Object.fromEntries([...joined, ['accept-encoding', 'identity']])
}

/** Names and values in turn. Egress has taken out the length of what it decoded. */
function answerHeaders(headers: Headers): string[] {
  const dropped = named(headers.get('connection') ?? undefined)
  const stays = (name: string): boolean => name === 'content-length' || !(isFramingHeader(name) || dropped.has(name))
  return [...headers].filter(([name]) => stays(name)).flat()
}

/** Headers that a Connection header keeps to this connection. */
function named(connection = ''): ReadonlySet<string> {
  return new Set(connection.split(',').map((name) => name.trim().toLowerCase()))
}
