import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import type { Duplex } from 'node:stream'
import { ToolError } from '@gantry/contract'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { Broker } from './broker.ts'
import { badRequest, otherHost, type ProxyConnection, type ProxyPorts, scopeOf } from './connection.ts'
import { type Authority, isListed, isNamedBy, parseAuthority } from './origins.ts'
import { secretsFor } from './secrets.ts'

const established = 'HTTP/1.1 200 Connection established\r\n\r\n'

/**
 * Handles CONNECT. To an allowed `https` origin, bytes are forwarded unread after their ClientHello, unless the origin may
 * receive a secret: then `broker` terminates TLS and reads the requests.
 * To an origin that is allowed only for `http`, `speakHttp` gets the connection, and the next request on it is checked
 * like a plain one: Node's own `fetch` opens a tunnel for every `http` request.
 */
export async function tunnel(
  ports: ProxyPorts,
  line: ProxyConnection,
  request: IncomingMessage,
  head: Buffer,
  speakHttp: (authority: Authority) => void,
  broker: Broker | undefined,
): Promise<void> {
  const { socket } = line
  const authority = authorityOf(request, line)
  if (broker !== undefined && isBrokered(ports, authority)) {
    if (head.length > 0) socket.unshift(head)
    line.answered()
    socket.write(established)
    return broker.serve(line, authority)
  }
  const plain = !isListed(ports.origins, 'https', authority) && isListed(ports.origins, 'http', authority)
  const remote = plain ? undefined : await open(ports, authority, line.signal)
  if (head.length > 0) socket.unshift(head)
  if (remote === undefined) {
    socket.write(established)
    return speakHttp(authority)
  }
  try {
    line.answered()
    socket.write(established)
    await exchange(line, authority, remote)
  } finally {
    remote.destroy()
  }
}

/** Egress refuses origins that are not on the sandbox's own list. */
function isBrokered({ origins, secrets }: ProxyPorts, authority: Authority): boolean {
  return isListed(origins, 'https', authority) && secretsFor(secrets, 'https', authority).length > 0
}

function authorityOf(request: IncomingMessage, { inside }: ProxyConnection): Authority {
  const authority = parseAuthority(request.url ?? '')
  if (authority === undefined) throw badRequest('The target of a tunnel is not as in "CONNECT host:port".')
  if (inside !== undefined) throw badRequest('A tunnel cannot lead through a tunnel.')
  // Clients omit a port that is the default of their protocol.
  if (!isNamedBy(request.headersDistinct.host, authority, authority.port)) throw otherHost()
  return authority
}

async function open(ports: ProxyPorts, to: Authority, signal: AbortSignal): Promise<Duplex> {
  try {
    return await ports.egress.connect({ ...scopeOf(ports), host: to.host, port: to.port, signal, tunnel: true })
  } catch (error) {
    if (!ToolError.is(error) || error.code !== 'EGRESS_DENIED') throw error
    const why = 'A tunnel hides what goes through it, so that it counts as https and no rule with methods allows it.'
    throw new ToolError('EGRESS_DENIED', `${error.message} ${why}`, { cause: error })
  }
}

/** Forwards bytes until both sides have ended, or one fails. */
async function exchange(
  { socket, meter, signal }: ProxyConnection,
  { host }: Authority,
  remote: Duplex,
): Promise<void> {
  const gate = helloGate(host)
  const up = (piece: Uint8Array): Uint8Array | undefined => {
    meter.up(piece.byteLength)
    return gate(piece)
  }
  const down = (piece: Uint8Array): Uint8Array => {
    meter.down(piece.byteLength)
    return piece
  }
  try {
    await Promise.all([carry(socket, remote, up, signal), carry(remote, socket, down, signal)])
  } catch (error) {
    // The client is inside a TLS handshake, where an alert is the only possible answer.
    if (ToolError.is(error) && error.code === 'EGRESS_DENIED') socket.write(unrecognizedName)
    throw error
  }
}

/**
 * Forwards bytes from one side to the other, and ends the other side when they end. Without a stream pipeline, whose
 * overhead for each chunk exceeds the rest of the work.
 * - Cancellation: rejects with the signal's reason; the caller destroys both sides.
 * - Errors: what `pass` throws, and a side that closed before its end.
 */
function carry(
  from: Duplex,
  to: Duplex,
  pass: (piece: Uint8Array) => Uint8Array | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let ended = false
  const take = (piece: Uint8Array): void => {
    try {
      const passed = pass(piece)
      if (passed !== undefined && !to.write(passed)) from.pause()
    } catch (error) {
      from.off('data', take)
      reject(error)
    }
  }
  const goOn = (): void => void from.resume()
  const end = (): void => {
    ended = true
    to.end(resolve)
  }
  const closed = (): void => {
    if (!ended) reject(new Error('The connection closed before its end.'))
  }
  // A side that has sent everything and closes need not receive the rest.
  const gone = (): void => (to.readableEnded ? resolve() : reject(new Error('The other side closed.')))
  from.on('data', take).once('end', end).once('close', closed)
  to.on('drain', goOn).once('close', gone)
  const leave = onAbort(signal, () => reject(signal.reason))
  return promise.finally(() => {
    from.off('data', take).off('end', end).off('close', closed)
    to.off('drain', goOn).off('close', gone)
    leave()
  })
}

/** The fatal TLS alert `unrecognized_name`, for a server name that is not served. */
const unrecognizedName = Uint8Array.of(21, 3, 3, 0, 2, 2, 112)

const recordHead = 5
const mostInRecord = 16_384

/** Takes the next bytes of a tunnel and returns those to forward; undefined while they are held back. */
type HelloGate = (piece: Uint8Array) => Uint8Array | undefined

/**
 * Holds the first bytes of a tunnel back until they are a TLS ClientHello for the CONNECT host, then forwards everything;
 * throws EGRESS_DENIED for anything else. So a rule for `https://a.example` opens neither another protocol nor, where
 * one address serves many names, another name. The content of TLS is not visible here.
 */
export function helloGate(host: string): HelloGate {
  const held: Uint8Array[] = []
  let [bytes, needed] = [0, recordHead]
  return (piece) => {
    if (needed === 0) return piece
    held.push(piece)
    bytes += piece.byteLength
    if (bytes < needed) return undefined
    const start = Buffer.concat(held)
    needed = recordHead + helloLength(start)
    if (bytes < needed) return undefined
    if (!isFor(host, serverNames(start.subarray(recordHead, needed)))) {
      throw refused(`The TLS server name differs from the CONNECT host ${host}.`)
    }
    needed = 0
    held.length = 0
    return start
  }
}

/** The record length of a ClientHello; no client splits one into several records. */
function helloLength(start: Buffer): number {
  const length = start.readUInt16BE(3)
  if (start[0] !== 22 || start[1] !== 3 || length > mostInRecord) throw notTls()
  return length
}

function isFor(host: string, names: readonly string[]): boolean {
  const [name, ...more] = names
  // An IP address is not sent as a server name.
  if (name === undefined) return isIP(host.replace(/^\[|\]$/g, '')) !== 0
  return more.length === 0 && name.toLowerCase().replace(/\.$/, '') === host
}

/** All server names in a ClientHello. */
function serverNames(hello: Buffer): string[] {
  try {
    return namesIn(hello)
  } catch (cause) {
    throw cause instanceof RangeError ? notTls(cause) : cause
  }
}

/** Reads without trusting any length; reading beyond the end, and any other malformed content, is a RangeError. */
function namesIn(hello: Buffer): string[] {
  if (hello.readUInt8(0) !== 1 || hello.readUIntBE(1, 3) !== hello.length - 4) throw new RangeError('not a ClientHello')
  const names: string[] = []
  let at = 4 + 2 + 32
  at += 1 + hello.readUInt8(at) // the session
  at += 2 + hello.readUInt16BE(at) // ciphers
  at += 1 + hello.readUInt8(at) // compression
  if (at === hello.length) return names
  if (hello.readUInt16BE(at) !== hello.length - at - 2) throw new RangeError('extensions of another length')
  for (at += 2; at < hello.length; ) {
    const [type, start] = [hello.readUInt16BE(at), at + 4]
    at = start + hello.readUInt16BE(at + 2)
    if (at > hello.length) throw new RangeError('an extension beyond the end')
    if (type === 0) addNames(hello.subarray(start, at), names)
  }
  return names
}

function addNames(list: Buffer, names: string[]): void {
  if (list.readUInt16BE(0) !== list.length - 2) throw new RangeError('names of another length')
  for (let at = 2; at < list.length; ) {
    const end = at + 3 + list.readUInt16BE(at + 1)
    if (list.readUInt8(at) !== 0 || end > list.length) throw new RangeError('not a name')
    names.push(list.toString('latin1', at + 3, end))
    at = end
  }
}

function notTls(cause?: unknown): ToolError {
  return refused('A tunnel carries TLS only.', cause)
}

function refused(message: string, cause?: unknown): ToolError {
  return new ToolError('EGRESS_DENIED', message, { cause })
}
