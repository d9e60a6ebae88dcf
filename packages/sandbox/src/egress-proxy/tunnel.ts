import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { ToolError } from '@gantry/contract'
import { names } from './allow.ts'
import { type Authority, isNamedBy, parseAuthority } from './authority.ts'
import type { Broker } from './broker.ts'
import { carry } from './carry.ts'
import { helloGate, unrecognizedName } from './client-hello.ts'
import { type Line, type ProxyPorts, scopeOf } from './connection.ts'
import { standingFor } from './placeholder.ts'
import { badRequest, otherHost } from './refusal.ts'

const established = 'HTTP/1.1 200 Connection established\r\n\r\n'

/**
 * Answers CONNECT. Where the sandbox may reach an `https` origin, bytes go through unread behind their ClientHello, unless
 * the origin may be told a secret: then `broker` ends the encryption and reads what is asked for.
 * Where it may only reach an `http` one, `speakHttp` is called with a connection whose next request says what is
 * wanted, so that it is checked like any other: Node's own `fetch` asks for a tunnel in front of every `http` request.
 */
export async function tunnel(
  ports: ProxyPorts,
  line: Line,
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
  const plain = !names(ports.origins, 'https', authority) && names(ports.origins, 'http', authority)
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

/** Whatever the sandbox's own list does not name is left to egress to refuse. */
function isBrokered({ origins, standing }: ProxyPorts, authority: Authority): boolean {
  return names(origins, 'https', authority) && standingFor(standing, 'https', authority).length > 0
}

function authorityOf(request: IncomingMessage, { inside }: Line): Authority {
  const authority = parseAuthority(request.url ?? '')
  if (authority === undefined) throw badRequest('The target of a tunnel is not as in "CONNECT host:port".')
  if (inside !== undefined) throw badRequest('A tunnel cannot lead through a tunnel.')
  // Clients leave out a port that is usual for what they want the tunnel for.
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

/** Carries bytes until both sides have ended, or one fails. */
async function exchange({ socket, meter, signal }: Line, { host }: Authority, remote: Duplex): Promise<void> {
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
    // The client is in the middle of TLS, where this is the only way to say so.
    if (ToolError.is(error) && error.code === 'EGRESS_DENIED') socket.write(unrecognizedName)
    throw error
  }
}
