import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Answer, safeHeaders } from '../http/answer.ts'
import type { Visit } from '../http/request-scope.ts'

/** A request as the SDK reads it; the body was read before and goes beside it. */
export function webRequest(request: IncomingMessage, signal: AbortSignal): Request {
  const headers = new Headers()
  for (const [name, value] of Object.entries(request.headers)) {
    // No credential goes further than the door.
    if (typeof value === 'string' && name !== 'authorization' && name !== 'cookie') headers.set(name, value)
  }
  return new Request('http://localhost/mcp', { method: request.method ?? 'GET', headers, signal })
}

/** Writes an answer of the SDK, a stream as fast as the client takes it. */
export async function sendResponse(response: ServerResponse, answer: Response, { stop }: Visit): Promise<Answer> {
  const { status, body } = answer
  const headers = { ...Object.fromEntries(answer.headers), ...safeHeaders }
  if (response.destroyed) await body?.cancel()
  else if (body === null) response.writeHead(status, headers).end()
  else if (answer.headers.get('content-type')?.startsWith('text/event-stream') !== true) {
    const text = await answer.text()
    response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(text) }).end(text)
  } else {
    response.writeHead(status, headers)
    response.flushHeaders()
    // A client that leaves, or a server that closes, ends the stream; the SDK hears of it by the signal of the request.
    await pipeline(Readable.fromWeb(body as never), response, { signal: stop }).catch(() => response.destroy())
  }
  return { kind: 'sent', status }
}
