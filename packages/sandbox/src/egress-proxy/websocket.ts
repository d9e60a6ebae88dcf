import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { ToolError } from '@gantry/contract'
import { badRequest, counted, type ProxiedRequest, type ProxyPorts, scopeOf } from './connection.ts'
import { headersOf, targetOf } from './forward.ts'
import { type BrokeredSecret, insertIntoHeaders, insertIntoQuery, removeFromHeaders, secretsFor } from './secrets.ts'

const mostHeadBytes = 16_384

/**
 * Upgrades a connection to a WebSocket: secrets are inserted into the upgrade request, and frames are forwarded after
 * the response. A secret cannot be removed from frames without breaking them, so a returned secret closes the connection;
 * compression, which would hide it, is not negotiated. Throws the error for the client while no response has begun.
 */
export async function upgrade(
  ports: ProxyPorts,
  proxied: ProxiedRequest,
  request: IncomingMessage,
  socket: Socket,
  head: Buffer,
): Promise<void> {
  const { signal, meter } = proxied
  const { url, authority } = targetOf(request, proxied)
  if (request.method !== 'GET' || !/^websocket$/i.test(request.headers.upgrade ?? '')) {
    throw new ToolError('EGRESS_DENIED', 'A connection can be upgraded only to WebSocket.')
  }
  if (request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0) {
    throw badRequest('A request for a WebSocket has no body.')
  }
  const secrets = secretsFor(ports.secrets, 'https', authority)
  const tls = { alpn: ['http/1.1'] }
  const { host, port } = authority
  const remote = await ports.egress.connect({ ...scopeOf(ports), host, port, signal, tls })
  try {
    remote.write(requestHead(request, insertIntoQuery(url, secrets), secrets))
    const answer = await headOf(remote, signal)
    socket.write(answerHead(answer.lines, secrets))
    if (head.length > 0) socket.unshift(head)
    const come = counted(followed(answer.rest, remote), (bytes) => {
      meter.down(bytes)
      proxied.moved()
    })
    const down = withoutSecrets(come, secrets)
    const up = counted(socket.iterator({ destroyOnReturn: false }), meter.up)
    // After the response no reason can be sent: every failure closes the connection.
    await Promise.all([pipeline(up, remote, { signal }), pipeline(down, socket, { signal })]).catch(() =>
      socket.destroy(),
    )
  } finally {
    remote.destroy()
  }
}

/** The upgrade headers are rewritten, so that the client negotiates nothing else. */
function requestHead(request: IncomingMessage, url: URL, secrets: readonly BrokeredSecret[]): Buffer {
  const { 'sec-websocket-extensions': _extensions, ...headers } = headersOf(request)
  const filled = Object.entries(insertIntoHeaders(headers, secrets))
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

/** The head of the response, which must accept the upgrade, and the bytes after it. */
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

function answerHead(lines: readonly string[], secrets: readonly BrokeredSecret[]): Buffer {
  return Buffer.from([...removeFromHeaders(lines, secrets), '', ''].join('\r\n'), 'latin1')
}

async function* followed(first: Buffer, rest: Duplex): AsyncGenerator<Uint8Array, void, undefined> {
  if (first.length > 0) yield first
  yield* rest.iterator({ destroyOnReturn: false })
}

/** Most bytes of frame heads and control frames that may wait with a message, which may have any number of frames. */
const mostBetween = 65_536

/**
 * Forwards WebSocket frames that contain no secret, and throws EGRESS_DENIED before a secret is forwarded.
 *
 * The end of an unfinished message is held back by the length that an incomplete secret could have, whatever its content;
 * with the end of the message everything is forwarded, so that the client never waits for the next message. Bytes that are
 * held back when the connection ends in the middle of a message are dropped.
 */
export async function* withoutSecrets(
  pieces: AsyncIterable<Uint8Array>,
  secrets: readonly BrokeredSecret[],
): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = createFrameReader()
  let waiting: FramePart[] = []
  for await (const piece of pieces) {
    const passed: Buffer[] = []
    for (const part of reader.push(piece)) {
      waiting.push(part)
      if (part.kind === 'control') check(part.bytes.toString('latin1'), secrets)
      if (!part.ends) continue
      check(messageOf(waiting), secrets)
      passed.push(joined(waiting))
      waiting = []
    }
    const message = messageOf(waiting)
    const settled = Math.min(message.length, ...secrets.map(({ redactor }) => redactor.settled(message)))
    if (settled > 0) check(message, secrets)
    const [before, behind] = parted(waiting, settled)
    waiting = behind
    const bytes = Buffer.concat([...passed, joined(before)])
    if (bytes.length > 0) yield bytes
    if (joined(waiting).length - (message.length - settled) > mostBetween) {
      throw new ToolError('EGRESS_DENIED', 'The server sent a message in too many small frames.')
    }
  }
}

function joined(parts: readonly FramePart[]): Buffer {
  return Buffer.concat(parts.map(({ bytes }) => bytes))
}

function messageOf(parts: readonly FramePart[]): string {
  return joined(parts.filter(({ kind }) => kind === 'data')).toString('latin1')
}

function check(text: string, secrets: readonly BrokeredSecret[]): void {
  if (secrets.every(({ redactor }) => redactor.text(text) === text)) return
  throw new ToolError('EGRESS_DENIED', 'The server sent a secret back.')
}

/** Splits parts after a number of message bytes, together with the heads before the next byte. */
function parted(parts: readonly FramePart[], length: number): [FramePart[], FramePart[]] {
  let left = length
  for (const [index, part] of parts.entries()) {
    if (part.kind !== 'data') continue
    if (part.bytes.length > left) {
      const [before, behind] = [part.bytes.subarray(0, left), part.bytes.subarray(left)]
      const more = left === 0 ? [] : [{ ...part, bytes: before }]
      return [
        [...parts.slice(0, index), ...more],
        [{ ...part, bytes: behind }, ...parts.slice(index + 1)],
      ]
    }
    left -= part.bytes.length
  }
  return [[...parts], []]
}

/** A part of what a WebSocket server sent; all parts in order are the received bytes. */
interface FramePart {
  /** `data` are bytes of a message, `head` precedes them, and `control` is a complete control frame. */
  readonly kind: 'head' | 'data' | 'control'
  readonly bytes: Buffer
  /** Whether a message ends here; it may have several frames. */
  readonly ends: boolean
}

/** Parses a chunked stream: data as it arrives, everything else when it is complete. */
interface FrameReader {
  /** Throws EGRESS_DENIED for a frame that is invalid without extensions. */
  push(piece: Uint8Array): FramePart[]
}

function createFrameReader(): FrameReader {
  let kept: Buffer = Buffer.alloc(0)
  let left = 0
  let final = false
  const take = (length: number): Buffer => {
    const taken = kept.subarray(0, length)
    kept = kept.subarray(length)
    return taken
  }
  /** The next part of the buffer; undefined when more bytes are needed. */
  const next = (): FramePart | undefined => {
    if (left > 0) {
      if (kept.length === 0) return undefined
      const bytes = take(left)
      left -= bytes.length
      return { kind: 'data', bytes, ends: final && left === 0 }
    }
    const head = frameHeadOf(kept)
    if (head === undefined) return undefined
    if (head.control) {
      const length = head.length + head.payload
      return kept.length < length ? undefined : { kind: 'control', bytes: take(length), ends: false }
    }
    left = head.payload
    final = head.final
    return { kind: 'head', bytes: take(head.length), ends: final && left === 0 }
  }
  return {
    push(piece) {
      kept = Buffer.concat([kept, piece])
      const parts: FramePart[] = []
      for (let part = next(); part !== undefined; part = next()) parts.push(part)
      return parts
    },
  }
}

interface Head {
  readonly length: number
  readonly payload: number
  readonly final: boolean
  readonly control: boolean
}

/** Parses a frame head (RFC 6455, 5.2); undefined when it is incomplete. */
function frameHeadOf(bytes: Buffer): Head | undefined {
  const [first, second] = bytes
  if (first === undefined || second === undefined) return undefined
  const [final, control, short] = [(first & 0x80) !== 0, (first & 0x08) !== 0, second & 0x7f]
  const reserved = (first & 0x70) !== 0 || (second & 0x80) !== 0
  if (reserved || (control && (short > 125 || !final))) {
    throw new ToolError('EGRESS_DENIED', 'The server sent an invalid WebSocket frame; no extensions were negotiated.')
  }
  const length = short === 127 ? 10 : short === 126 ? 4 : 2
  if (bytes.length < length) return undefined
  const payload = short === 127 ? Number(bytes.readBigUInt64BE(2)) : short === 126 ? bytes.readUInt16BE(2) : short
  return { length, payload, final, control }
}
