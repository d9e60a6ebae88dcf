import { type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { ToolError } from '@gantry/contract'
import { safeHeaders } from './answer.ts'
import { problem } from './problems.ts'

/**
 * Answers what is not HTTP, or not in time, or has too long a head: no route ever sees it. `current` is the response that
 * the connection is busy with. Bytes that come behind a whole request are never answered in place of its answer.
 */
export function answerClientError(error: { readonly code?: string }, socket: Socket, current?: ServerResponse): void {
  const busy = current !== undefined && !current.writableFinished && (current.headersSent || current.req.complete)
  if (error.code === 'ECONNRESET' || !socket.writable || busy) {
    socket.destroy()
    return
  }
  const { status, fault } = faultOf(error.code)
  const { headers, body } = { body: {}, ...problem(fault, status, { connection: 'close' }) }
  const text = JSON.stringify(body)
  const all = {
    ...safeHeaders,
    ...headers,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${text}`)
  socket.destroySoon()
}

function faultOf(code: string | undefined): { readonly status: number; readonly fault: ToolError } {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    const how = { effect: 'none', stage: 'admit' } as const
    return { status: 408, fault: new ToolError('TIMEOUT', 'The request did not arrive in time.', how) }
  }
  if (code === 'HPE_HEADER_OVERFLOW' || code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') {
    return { status: 431, fault: new ToolError('PAYLOAD_TOO_LARGE', 'The head of the request is too long.') }
  }
  return { status: 400, fault: new ToolError('PAYLOAD_INVALID', 'This is not an HTTP request.') }
}
