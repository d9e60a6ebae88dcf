import { chmod, lchown } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { Egress } from '@gantry/core/internal/egress/egress'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { Credential } from '@gantry/core/internal/runtimes/runtime'
import { createBroker } from './broker.ts'
import { createCertificateAuthority } from './certificate-authority.ts'
import {
  badRequest,
  createBudget,
  type EgressProxyLimits,
  overLimit,
  ProxyConnection,
  type ProxyPorts,
  refuse,
  usualLimits,
} from './connection.ts'
import { forward } from './forward.ts'
import { type Authority, parseAllow } from './origins.ts'
import { createBrokeredSecret } from './secrets.ts'
import { tunnel } from './tunnel.ts'

export type { Credential, CredentialLocation } from '@gantry/core/internal/runtimes/runtime'
export type { EgressProxyLimits } from './connection.ts'

export interface EgressProxyOptions {
  readonly egress: Egress
  /** The owner named in the events of egress. */
  readonly owner: string
  /** The tenant for which the sandbox runs. */
  readonly tenant?: string
  /** Origins as egress rules name them; they narrow what the rules allow and never widen it. */
  readonly allow: readonly string[]
  /** The folder of `proxy.sock`: owned by the caller, and accessible only to the sandbox. */
  readonly socketFolder: string
  /** The uid that owns the socket, when this process is root. */
  readonly uid?: number
  /** Closes the proxy. */
  readonly signal?: AbortSignal
  readonly limits?: Partial<EgressProxyLimits>
  /** Secrets that programs of the sandbox use by placeholders. */
  readonly credentials?: readonly Credential[]
}

/**
 * The egress of one sandbox: an HTTP proxy on a Unix socket of the host, which checks each request and lets egress decide
 * and connect. It accepts `CONNECT host:port` and requests with an absolute URL, one per connection; inside a tunnel to a
 * host that may receive a secret, whose TLS is terminated here, any number of them.
 * - Concurrency: up to its connection limit; a further connection gets 503.
 * - Errors: the client receives them as HTTP responses; none is thrown.
 * - Ownership: the creator closes it and removes the folder.
 */
export interface EgressProxy {
  /** The path of the socket. */
  readonly path: string
  /** The placeholders by variable. */
  readonly placeholders: { readonly [variable: string]: string }
  /** The CA certificate, as PEM, that programs must trust for hosts that receive a secret; absent without credentials. */
  readonly certificate?: string
  /** Ends every connection; resolves when the socket is removed. Idempotent. */
  close(): Promise<void>
}

/** Opens the proxy. Throws INPUT_INVALID for an invalid `allow`, SANDBOX_INIT_FAILED when its socket cannot be created. */
export async function createEgressProxy(options: EgressProxyOptions): Promise<EgressProxy> {
  const { egress, owner, tenant, socketFolder, uid, signal } = options
  const origins = parseAllow(options.allow)
  signal?.throwIfAborted()
  const limits = { ...usualLimits, ...options.limits }
  const secrets = (options.credentials ?? []).map(createBrokeredSecret)
  const authority = secrets.length === 0 ? undefined : createCertificateAuthority()
  const whose = { ...(authority === undefined ? {} : { authority }), ...(tenant === undefined ? {} : { tenant }) }
  const server = serve({ egress, owner, only: [...options.allow], origins, limits, secrets, ...whose })
  const placeholders = Object.fromEntries(secrets.map(({ variable, placeholder }) => [variable, placeholder]))
  const shown = authority === undefined ? {} : { certificate: authority.certificate }
  const path = join(socketFolder, 'proxy.sock')
  const close = async (): Promise<void> => {
    stopListening?.()
    await server.close()
  }
  const stopListening = signal && onAbort(signal, () => void close())
  try {
    await server.listen(path)
    await chmod(path, 0o600)
    if (uid !== undefined && process.getuid?.() === 0) await lchown(path, uid, -1)
    signal?.throwIfAborted()
    return { path, placeholders, ...shown, close }
  } catch (cause) {
    await close()
    signal?.throwIfAborted()
    throw new ToolError('SANDBOX_INIT_FAILED', 'The socket of the egress proxy could not be made.', { cause })
  }
}

interface ProxyServer {
  listen(path: string): Promise<void>
  close(): Promise<void>
}

function serve(ports: ProxyPorts): ProxyServer {
  const { limits } = ports
  const lines = new Map<Socket, ProxyConnection>()
  const budget = createBudget(limits)
  const broker = ports.authority === undefined ? undefined : createBroker(ports, ports.authority)
  const server = createServer({
    maxHeaderSize: limits.headBytes,
    insecureHTTPParser: false,
    // The Host header is checked with the rest of the request, where a reason can be returned.
    requireHostHeader: false,
    // Every connection has its own timers.
    headersTimeout: 0,
    requestTimeout: 0,
    keepAliveTimeout: 0,
  })
  // Node silently drops headers above a number; their bytes are limited anyway.
  server.maxHeadersCount = 0
  const tooLong = badRequest(`The head of the request has more than ${limits.headBytes} bytes.`)
  const crowded = overLimit(`A sandbox may have ${limits.connections} connections at once.`)
  let closed: Promise<void> | undefined

  const admit = (socket: Socket): void => {
    // A tunnel to an http origin re-enters as a connection.
    if (lines.has(socket)) return
    socket.on('error', () => {})
    const refused = lines.size < limits.connections ? budget.refusal() : crowded
    if (refused !== undefined) refuse(socket, refused)
    else lines.set(socket, new ProxyConnection(socket, budget.meter(), limits))
    socket.once('close', () => lines.delete(socket))
  }
  const answer = async (request: IncomingMessage, work: (line: ProxyConnection) => Promise<void>): Promise<void> => {
    const line = lines.get(request.socket)
    request.on('error', () => {})
    const bytes = headBytes(request)
    try {
      // Node does not count the separators between names and values.
      if (bytes > limits.headBytes) throw tooLong
      if (line?.begin(bytes) === true) await work(line)
    } catch (error) {
      line?.fail(error)
    }
  }
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    response.on('error', () => {})
    void answer(request, (line) => forward(ports, line, request, response))
  }
  server.on('connection', admit)
  server.on('request', onRequest).on('checkContinue', onRequest).on('checkExpectation', onRequest)
  server.on('connect', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    const speakHttp = (line: ProxyConnection, authority: Authority): void => {
      line.beginInside(authority)
      server.emit('connection', socket)
    }
    const work = (line: ProxyConnection): Promise<void> =>
      tunnel(ports, line, request, head, (authority) => speakHttp(line, authority), broker)
    void answer(request, work)
  })
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    lines.get(socket)?.fail(error.code === 'HPE_HEADER_OVERFLOW' ? tooLong : badRequest('This is not HTTP/1.1.'))
  })
  // The connection handles the timeout; without a listener here Node destroys the socket.
  server.on('timeout', () => {})

  return {
    listen: (path) => listen(server, path),
    close() {
      closed ??= new Promise((resolve) => server.close(() => resolve()))
      server.closeAllConnections()
      // Node no longer counts the sockets of tunnels.
      for (const socket of lines.keys()) socket.destroy()
      return closed
    },
  }
}

function listen(server: Server, path: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  // Stays for the life of the server: later errors have no other listener.
  server.on('error', reject)
  server.listen(path, () => resolve())
  return promise
}

/** The approximate size of a request head. */
function headBytes({ url = '', rawHeaders }: IncomingMessage): number {
  return rawHeaders.reduce((bytes, text) => bytes + text.length + 2, url.length)
}
