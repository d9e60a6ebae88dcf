import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { ToolError } from '@gantry/contract'
import { type Passage, type ProxyPorts, scopeOf } from './connection.ts'
import { headersOf, targetOf } from './forward.ts'
import { putIntoHeaders, putIntoQuery } from './insert-secrets.ts'
import { counted } from './limits.ts'
import { type Standing, standingFor } from './placeholder.ts'
import { badRequest } from './refusal.ts'
import { takeOutOfHeaders } from './remove-secrets.ts'
import { withoutSecrets } from './remove-secrets-frames.ts'

const mostHeadBytes = 16_384

/**
 * Turns a connection into a WebSocket: secrets go into the request that asks for it, and behind its answer frames go
 * through. Nobody can take a secret out of frames without breaking them, so one that comes back cuts the connection;
 * compression, which would hide it, is not asked for. Throws what the client is to be told while it was not answered.
 */
export async function upgrade(
  ports: ProxyPorts,
  passage: Passage,
  request: IncomingMessage,
  socket: Socket,
  head: Buffer,
): Promise<void> {
  const { signal, meter } = passage
  const { url, authority } = targetOf(request, passage)
  if (request.method !== 'GET' || !/^websocket$/i.test(request.headers.upgrade ?? '')) {
    throw new ToolError('EGRESS_DENIED', 'A connection may be turned into a WebSocket only.')
  }
  if (request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0) {
    throw badRequest('A request for a WebSocket has no body.')
  }
  const standing = standingFor(ports.standing, 'https', authority)
  const tls = { alpn: ['http/1.1'] }
  const { host, port } = authority
  const remote = await ports.egress.connect({ ...scopeOf(ports), host, port, signal, tls })
  try {
    remote.write(requestHead(request, putIntoQuery(url, standing), standing))
    const answer = await headOf(remote, signal)
    socket.write(answerHead(answer.lines, standing))
    if (head.length > 0) socket.unshift(head)
    const come = counted(followed(answer.rest, remote), (bytes) => {
      meter.down(bytes)
      passage.moved()
    })
    const down = withoutSecrets(come, standing)
    const up = counted(socket.iterator({ destroyOnReturn: false }), meter.up)
    // Behind the answer there is no room for a reason: whatever fails there cuts the connection.
    await Promise.all([pipeline(up, remote, { signal }), pipeline(down, socket, { signal })]).catch(() =>
      socket.destroy(),
    )
  } finally {
    remote.destroy()
  }
}

/** Of all that a client says, what it says of its wish is written anew, so that nothing else is agreed on. */
function requestHead(request: IncomingMessage, url: URL, standing: readonly Standing[]): Buffer {
  const { 'sec-websocket-extensions': _extensions, ...headers } = headersOf(request)
  const filled = Object.entries(putIntoHeaders(headers, standing))
  const lines = [
    `GET ${url.pathname}${url.search} HTTP/1.1`,
    `host: ${url.host}`,
    ...filled.map(([name, value]) => `${name}: ${value}`),
    'connection: Upgrade',
    'upgrade: websocket',
  ]
  return Buffer.from([...lines, '', ''].join('\r\n'), 'latin1')
}

interface AnswerHead {
  readonly lines: readonly string[]
  readonly rest: Buffer
}

/** The head of the answer, which must agree, and what came behind it. */
async function headOf(remote: Duplex, signal: AbortSignal): Promise<AnswerHead> {
  let bytes = Buffer.alloc(0)
  for await (const piece of remote.iterator({ destroyOnReturn: false })) {
    signal.throwIfAborted()
    bytes = Buffer.concat([bytes, piece])
    const end = bytes.indexOf('\r\n\r\n')
    if (end < 0 && bytes.length <= mostHeadBytes) continue
    const lines = bytes.toString('latin1', 0, Math.max(end, 0)).split('\r\n')
    if (end >= 0 && /^HTTP\/1\.1 101 /.test(lines[0] ?? '')) return { lines, rest: bytes.subarray(end + 4) }
    break
  }
  const status = /^HTTP\/1\.1 (\d{3}) /.exec(bytes.toString('latin1', 0, 32))?.[1] ?? 'nothing that is HTTP'
  throw new ToolError('BACKEND_FAILED', `The server answered with ${status}, and not with a WebSocket.`)
}

function answerHead(lines: readonly string[], standing: readonly Standing[]): Buffer {
  return Buffer.from([...takeOutOfHeaders(lines, standing), '', ''].join('\r\n'), 'latin1')
}

async function* followed(first: Buffer, rest: Duplex): AsyncGenerator<Uint8Array, void, undefined> {
  if (first.length > 0) yield first
  yield* rest.iterator({ destroyOnReturn: false })
}
