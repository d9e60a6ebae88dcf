import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { TestContext } from 'node:test'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import type { HostLookup } from '@gantry/core/internal/egress/options'
import type { CredentialLocation } from '@gantry/core/internal/runtimes/runtime'
import { here, listen, testCertificate, testKey } from '../../../core/src/egress/egress.fixture.ts'
import { proxyFor, received, type TestProxy, type TestProxyOptions } from './proxy.fixture.ts'

/** A value that appears nowhere else. */
export const secret = 'sk-live/7Qz+w9"é&4Lr=end'
const lookup: HostLookup = async () => [{ address: '127.0.0.1', family: 4 }]

export interface Asked {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

type Handler = (asked: Asked, response: ServerResponse, request: IncomingMessage) => void

/** An HTTPS server for secure.test and 127.0.0.1 that records its requests; by default it answers with the request. */
export async function secureServer(
  t: TestContext,
  handler: Handler = (asked, response) => void response.end(JSON.stringify(asked)),
) {
  const seen: Asked[] = []
  const server = createServer({ key: testKey, cert: testCertificate }, (request, response) => {
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => pieces.push(piece))
    request.on('end', () => {
      const { method = '', url = '', headers } = request
      const asked = { method, url, headers, body: Buffer.concat(pieces).toString('latin1') }
      seen.push(asked)
      handler(asked, response, request)
    })
  })
  server.on('tlsClientError', () => {})
  const { port, connections } = await listen(t, server)
  return { server, port, seen, connections, origin: `https://secure.test:${port}` }
}

export interface Scene extends TestProxy {
  readonly placeholder: string
  readonly ca: string
  /** Opens a tunnel and starts TLS in it, as a program of the sandbox does. */
  secure(host: string, options?: ConnectionOptions): Promise<TLSSocket>
  /** Sends a request in such a tunnel and returns everything received until the end. */
  ask(host: string, ...lines: readonly string[]): Promise<string>
}

/** A proxy with one credential, `TOKEN`, for these origins. */
export async function sceneFor(
  t: TestContext,
  hosts: readonly string[],
  options: TestProxyOptions & { readonly in?: readonly CredentialLocation[]; readonly value?: string } = {},
): Promise<Scene> {
  const { in: places, value = secret, ...rest } = options
  const credential = { variable: 'TOKEN', value: () => value, hosts, ...(places === undefined ? {} : { in: places }) }
  const allow = rest.allow ?? here(...hosts.map((origin) => ({ origin })))
  const proxy = await proxyFor(t, { lookup, ca: testCertificate, ...rest, allow, credentials: [credential] })
  const { TOKEN: placeholder = '' } = proxy.placeholders
  const ca = proxy.certificate ?? ''
  const secure: Scene['secure'] = async (host, given = {}) => {
    const socket = proxy.open()
    socket.write(`CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    const [answer] = await once(socket, 'data')
    if (!String(answer).startsWith('HTTP/1.1 200 ')) throw new Error(String(answer))
    const inner = connect({ socket, ca: [ca], servername: host.split(':')[0] ?? '', ...given })
    t.after(() => inner.destroy())
    await once(inner, 'secureConnect')
    return inner.on('error', () => {})
  }
  const ask: Scene['ask'] = async (host, ...lines) => {
    const inner = await secure(host)
    inner.write([lines[0], `Host: ${host}`, ...lines.slice(1), 'Connection: close', '', ''].join('\r\n'))
    return received(inner)
  }
  return { ...proxy, placeholder, ca, secure, ask }
}

export { lookup }

/** The body of a complete response, with chunks joined. */
export function bodyOf(answer: string): string {
  const start = answer.indexOf('\r\n\r\n') + 4
  if (!/\r\ntransfer-encoding: chunked\r\n/i.test(answer.slice(0, start))) return answer.slice(start)
  let body = ''
  for (let at = start; ; ) {
    const line = answer.indexOf('\r\n', at)
    const length = Number.parseInt(answer.slice(at, line), 16)
    if (!(length > 0)) return body
    body += answer.slice(line + 2, line + 2 + length)
    at = line + 4 + length
  }
}
