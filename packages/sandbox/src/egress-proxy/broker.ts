import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { isIP, type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { ToolError } from '@gantry/contract'
import type { CertificateAuthority } from './certificate-authority.ts'
import {
  badRequest,
  type ProxiedRequest,
  type ProxyConnection,
  type ProxyPorts,
  refusal,
  refused,
} from './connection.ts'
import { forward } from './forward.ts'
import type { Authority } from './origins.ts'
import { upgrade } from './websocket.ts'

/** Terminates TLS of tunnels to hosts that may receive a secret, and reads the requests inside. */
export interface Broker {
  /** Takes over a proxy connection after its CONNECT; resolves when it ends. */
  serve(line: ProxyConnection, authority: Authority): Promise<void>
}

/** A connection whose TLS ends here. Its requests are forwarded one at a time, in order. */
interface Inner extends ProxiedRequest {
  readonly inside: Authority
  waiting: number
  last: Promise<void>
}

/** Most pipelined requests; no client in use pipelines. */
const mostWaiting = 4

/**
 * Each connection is a TLS server for the CONNECT host, with a certificate of the sandbox's own CA, and speaks HTTP/1.1:
 * h2 is not offered. Every request in it is checked and forwarded like a plain one.
 */
export function createBroker(ports: ProxyPorts, authority: CertificateAuthority): Broker {
  const { headBytes } = ports.limits
  const inners = new WeakMap<object, Inner>()
  const server = createServer({
    maxHeaderSize: headBytes,
    insecureHTTPParser: false,
    requireHostHeader: false,
    headersTimeout: 0,
    requestTimeout: 0,
    keepAliveTimeout: 0,
  })
  server.maxHeadersCount = 0
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    request.on('error', () => {})
    response.on('error', () => {})
    const inner = inners.get(request.socket)
    if (inner === undefined || inner.waiting >= mostWaiting) return void request.socket.destroy()
    inner.waiting += 1
    inner.last = inner.last.then(async () => {
      await answer(ports, inner, request, response)
      inner.waiting -= 1
    })
  }
  server.on('request', onRequest).on('checkContinue', onRequest).on('checkExpectation', onRequest)
  server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    const inner = inners.get(socket)
    if (inner === undefined || inner.waiting > 0) return void socket.destroy()
    upgrade(ports, inner, request, socket, head).catch((error: unknown) => {
      if (ToolError.is(error)) socket.end(refusal(error), () => socket.destroy())
      else socket.destroy()
    })
  })
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    const tooLong = `The head of the request has more than ${headBytes} bytes.`
    const why = badRequest(error.code === 'HPE_HEADER_OVERFLOW' ? tooLong : 'This is not HTTP/1.1.')
    socket.end(refusal(why), () => socket.destroy())
  })
  server.on('timeout', () => {})

  return {
    async serve(line, host) {
      const socket = new TLSSocket(line.socket, {
        isServer: true,
        secureContext: authority.contextFor(host.host),
        ALPNProtocols: ['http/1.1'],
        SNICallback: (name, give) => {
          if (isFor(host, name)) give(null)
          else give(new Error('The TLS server name differs from the CONNECT host.'))
        },
      })
      socket.on('error', () => {})
      const { signal, meter } = line
      const over = Promise.withResolvers<void>()
      socket.once('close', over.resolve)
      socket.once('secure', () => {
        if (socket.servername === undefined || !isFor(host, socket.servername || '')) return void socket.destroy()
        const proxied = { answered: () => undefined, moved: () => line.moved() }
        inners.set(socket, { signal, meter, inside: host, secure: true, ...fresh(), ...proxied })
        server.emit('connection', socket)
      })
      await over.promise
      line.socket.destroy()
    },
  }
}

function fresh(): Pick<Inner, 'waiting' | 'last'> {
  return { waiting: 0, last: Promise.resolve() }
}

/** An IP address is not sent as a server name. */
function isFor({ host }: Authority, name: string): boolean {
  if (name === '') return isIP(host.replace(/^\[|\]$/g, '')) !== 0
  return name.toLowerCase().replace(/\.$/, '') === host
}

/** Never rejects: a failure is sent as a response while that is possible, and closes the connection afterwards. */
async function answer(
  ports: ProxyPorts,
  inner: Inner,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  try {
    inner.signal.throwIfAborted()
    inner.meter.up(headBytesOf(request))
    await forward(ports, inner, request, response)
  } catch (error) {
    if (response.headersSent) return void request.socket.destroy()
    const { status, body } = refused(error)
    response.shouldKeepAlive = false
    response.writeHead(status, { 'content-type': 'text/plain', 'content-length': body.length }).end(body)
  }
}

function headBytesOf({ url = '', rawHeaders }: IncomingMessage): number {
  return rawHeaders.reduce((bytes, text) => bytes + text.length + 2, url.length)
}
