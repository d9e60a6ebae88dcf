import { mkdtemp, rm } from 'node:fs/promises'
import { createServer as createTlsServer, type Server as HttpsServer } from 'node:https'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { Egress, EgressEvent } from '@gantry/core/internal/egress/egress'
import { createEgressGuard } from '@gantry/core/internal/egress/guard'
import type { EgressOptions } from '@gantry/core/internal/egress/options'
import { listen, testCertificate, testKey } from '../../../core/src/egress/egress.fixture.ts'
import { type Credential, createEgressProxy, type EgressProxy, type EgressProxyLimits } from './egress-proxy.ts'

export interface TestProxy extends EgressProxy {
  readonly egress: Egress
  readonly events: EgressEvent[]
  /** The tenant of each request and each raw connection. */
  readonly tenants: (string | undefined)[]
  /** Connects, sends, and returns everything received until the end. */
  send(...pieces: readonly (string | Uint8Array)[]): Promise<string>
  open(): Socket
}

export interface TestProxyOptions extends EgressOptions {
  /** The sandbox's origin list; the origins of `allow` when absent. */
  readonly only?: readonly string[]
  readonly limits?: Partial<EgressProxyLimits>
  readonly credentials?: readonly Credential[]
  readonly tenant?: string
}

/** A real egress with a proxy in front of it, both closed with the test. */
export async function proxyFor(t: TestContext, options: TestProxyOptions): Promise<TestProxy> {
  const { only, limits = {}, credentials = [], tenant, ...given } = options
  const events: EgressEvent[] = []
  const tenants: (string | undefined)[] = []
  const guard = createEgressGuard({ ...given, onEvent: (event) => events.push(event) })
  const egress: Egress = {
    ...guard,
    request(asked) {
      tenants.push(asked.tenant)
      return guard.request(asked)
    },
    connect(asked) {
      tenants.push(asked.tenant)
      return guard.connect(asked)
    },
  }
  t.after(() => egress.close())
  const names = (given.allow ?? []).map((rule) => (typeof rule === 'string' ? rule : rule.origin))
  const socketFolder = await tempFolder(t)
  const allow = only ?? names
  const whose = { owner: 'sandbox:1', ...(tenant === undefined ? {} : { tenant }) }
  const proxy = await createEgressProxy({ egress, ...whose, allow, socketFolder, limits, credentials })
  t.after(() => proxy.close())
  const open = (): Socket => connect(proxy.path).on('error', () => {})
  const send: TestProxy['send'] = async (...pieces) => {
    const socket = open()
    for (const piece of pieces) socket.write(piece)
    return received(socket)
  }
  return { ...proxy, egress, events, tenants, open, send }
}

/** Everything received on a socket until it ends, in any way. */
export function received(socket: Socket): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>()
  const pieces: Uint8Array[] = []
  socket.on('data', (piece) => pieces.push(piece))
  socket.once('close', () => resolve(Buffer.concat(pieces).toString('latin1')))
  return promise
}

export async function tempFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gantry-proxy-'))
  t.after(() => rm(folder, { recursive: true }))
  return folder
}

/** An HTTPS server for secure.test; `seen` has the URL and server name of each request. */
export async function serveTls(t: TestContext): Promise<{ origin: string; port: number; seen: string[] }> {
  const seen: string[] = []
  const server: HttpsServer = createTlsServer({ key: testKey, cert: testCertificate }, (request, response) => {
    seen.push(`${request.method} ${request.url}`)
    response.end('encrypted')
  })
  server.on('tlsClientError', () => {})
  const { port } = await listen(t, server)
  return { origin: `https://secure.test:${port}`, port, seen }
}

/** The relay inside a sandbox: a TCP port on loopback that forwards to the socket. */
export async function relay(t: TestContext, path: string): Promise<string> {
  const server = createServer((client) => {
    const proxy = connect(path)
    client.pipe(proxy).pipe(client)
    proxy.on('error', () => client.destroy()).on('close', () => client.destroySoon())
    client.on('close', () => proxy.destroy())
  })
  return (await listen(t, server)).origin
}
