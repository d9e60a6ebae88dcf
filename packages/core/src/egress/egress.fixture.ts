import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createRawServer, type Server, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { ToolError } from '@gantry/contract'
import type { Egress, EgressEvent, EgressRequest } from './egress.ts'
import { createEgressGuard } from './guard.ts'
import type { EgressOptions } from './options.ts'

/** A request that a server received. */
export interface Seen {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export interface TestServer {
  readonly origin: string
  readonly port: number
  readonly seen: Seen[]
  /** How many connections were accepted. */
  connections(): number
}

type Handler = (request: IncomingMessage, response: ServerResponse) => void

/** An HTTP server on loopback that records its requests; closed after the test. */
export async function serve(
  t: TestContext,
  handler: Handler = (_, response) => void response.end('ok'),
): Promise<TestServer> {
  const seen: Seen[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (piece) => {
      body += piece
    })
    request.on('end', () => {
      seen.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers, body })
      handler(request, response)
    })
  })
  return { ...(await listen(t, server)), seen }
}

/** A TCP server whose handler writes the raw response. */
export async function serveRaw(t: TestContext, handler: (socket: Socket) => void): Promise<TestServer> {
  return { ...(await listen(t, createRawServer(handler))), seen: [] }
}

/** A raw server that answers the first bytes of each connection with the same text. */
export function answering(t: TestContext, text: string | Uint8Array, end = true): Promise<TestServer> {
  return serveRaw(t, (socket) => {
    socket.once('data', () => (end ? socket.end(text) : socket.write(text)))
  })
}

export async function listen(t: TestContext, server: Server, host = '127.0.0.1'): Promise<Omit<TestServer, 'seen'>> {
  const sockets = new Set<Socket>()
  let connections = 0
  server.on('connection', (socket) => {
    connections += 1
    sockets.add(socket.on('error', () => {}))
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  t.after(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  return { origin: `http://${host}:${port}`, port, connections: () => connections }
}

export interface TestGuard {
  readonly egress: Egress
  readonly events: EgressEvent[]
  /** One request with the rest filled in. */
  get(url: string | URL, more?: Partial<EgressRequest>): ReturnType<Egress['request']>
}

/** A guard that is closed after the test, and its events. */
export function guard(t: TestContext, options: EgressOptions = {}): TestGuard {
  const events: EgressEvent[] = []
  const egress = createEgressGuard({ ...options, onEvent: (event) => events.push(event) })
  t.after(() => egress.close())
  const get: TestGuard['get'] = (url, more) => egress.request({ owner: 'test', url, signal: t.signal, ...more })
  return { egress, events, get }
}

/** Rules that let a test reach its servers. */
export function here(...servers: readonly { readonly origin: string }[]): { origin: string; private: true }[] {
  return servers.map(({ origin }) => ({ origin, private: true }))
}

/** For assert.rejects: a ToolError with this code, whose other fields are these. */
export function fails(code: string, more: Partial<Pick<ToolError, 'effect' | 'retryable' | 'message'>> = {}) {
  return (error: unknown): boolean => {
    if (!ToolError.is(error) || error.code !== code) throw error
    for (const [key, value] of Object.entries(more)) {
      const found = error[key as keyof typeof more]
      if (found !== value) throw new Error(`${key} is ${found}, not ${value}`, { cause: error })
    }
    return true
  }
}

/** For tests only: trusted nowhere, for names that do not exist. */
export const testKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgej+GjXKhFvJegEAA
jvCxpqSf2qpQ+1q2PSLCkdQgDwihRANCAARv6k/LHT4YvdpMVvnrAnc6f81JATr4
NFtX5xd74aeaUmtJzFOtUaQBmXGpg0Ci9o+Mili74oSC0Lzqkyh4xGtj
-----END PRIVATE KEY-----
`
/** Self-signed, for secure.test and 127.0.0.1, valid until 2126. */
export const testCertificate = `-----BEGIN CERTIFICATE-----
MIIBoTCCAUegAwIBAgIUfV9k8ep5kBxmZH/g1q34EeNYlLEwCgYIKoZIzj0EAwIw
FjEUMBIGA1UEAwwLR2FudHJ5IHRlc3QwIBcNMjYxMTE1MTEzNjU4WhgPMjEyNjEw
MjIxMTM2NThaMBYxFDASBgNVBAMMC0dhbnRyeSB0ZXN0MFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAEb+pPyx0+GL3aTFb56wJ3On/NSQE6+DRbV+cXe+GnmlJrScxT
rVGkAZlxqYNAovaPjIpYu+KEgtC86pMoeMRrY6NxMG8wHQYDVR0OBBYEFHyPqmGG
xdD9dOoKOKCSrQEzv2MfMB8GA1UdIwQYMBaAFHyPqmGGxdD9dOoKOKCSrQEzv2Mf
MA8GA1UdEwEB/wQFMAMBAf8wHAYDVR0RBBUwE4ILc2VjdXJlLnRlc3SHBH8AAAEw
CgYIKoZIzj0EAwIDSAAwRQIhAOPZBjHlLb3nW3g/Iz9ghJ6ADriQ72xawoEYuqMD
f9TVAiBCU6B8OsVRBPK8kFm3yNsThIXR3mbhdH/Zm+kM6ZoE0w==
-----END CERTIFICATE-----
`
