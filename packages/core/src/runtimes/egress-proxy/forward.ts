import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { ToolError } from '@gantry/contract'
import { isFramingHeader } from '../../ids/header-names.ts'
import { isNamedBy, parsePath, parseTarget, type RequestTarget } from './authority.ts'
import { counted, overLimit } from './limits.ts'
import type { Line, ProxyPorts } from './line.ts'
import { badRequest, otherHost } from './refusal.ts'

/** Bodies of this many bytes are sent as one, because many servers do not take a body without its length. */
const wholeBytes = 1_048_576

/** Sends a request on through egress, and what comes back to the sandbox; redirects are the client's to follow. */
export async function forward(
  { egress, owner, only, limits }: ProxyPorts,
  line: Line,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { signal, meter } = line
  const { url } = targetOf(request, line)
  const body = bodyOf(request, response, line, limits.upBytes)
  const answer = await egress.request({
    ...{ owner, only, url, signal, method: request.method ?? '', headers: headersOf(request) },
    ...(body === undefined ? {} : { body: body.whole ? await buffer(body.pieces) : body.pieces }),
    // The connection's own clock runs while nothing comes.
    ...{ maxBytes: limits.downBytes, headersMs: 0, idleMs: 0 },
  })
  try {
    signal.throwIfAborted()
    response.sendDate = false
    response.shouldKeepAlive = false
    response.writeHead(answer.status, answerHeaders(answer.headers))
    line.answered()
    await pipeline(counted(answer.body, meter.down), response, { signal })
  } finally {
    answer.cancel()
  }
}

/** Where a request goes; throws INPUT_INVALID when it does not say so in one way only. */
function targetOf(request: IncomingMessage, { inside }: Line): RequestTarget {
  const text = request.url ?? ''
  const target = inside === undefined ? parseTarget(text) : parsePath(text, inside)
  const form = inside === undefined ? 'GET http://host/path' : 'GET /path'
  if (target === undefined) throw badRequest(`The target of the request is not as in "${form}".`)
  if (!isNamedBy(request.headersDistinct.host, target.authority, target.usualPort)) throw otherHost()
  if (request.headers.upgrade !== undefined) {
    throw new ToolError('EGRESS_DENIED', 'A connection may not be turned into one of another protocol.')
  }
  return target
}

/** The body of a request, if it has one; throws when it is too long from the start. */
function bodyOf(
  request: IncomingMessage,
  response: ServerResponse,
  { meter }: Line,
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
function headersOf(request: IncomingMessage): { readonly [name: string]: string } {
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
