import { connect } from 'node:net'
import type { TestContext } from 'node:test'
import type { Identity } from '@gantry/contract'
import { newApiKey } from '../config/service-files.ts'
import { anyOf, keyFileAuthenticator } from './authentication/authenticator.ts'
import { createHttpServer, type HttpOptions, type HttpServer } from './server.ts'
import { type FakeService, fakeService } from './service.fixture.ts'

export const owner: Identity = { principal: 'owner', tenant: 'acme', permissions: ['*'] }
export const stranger: Identity = { principal: 'stranger', tenant: 'other', permissions: ['*'] }

/** The log of a test server. */
export interface Lines {
  readonly lines: { readonly level: string; readonly fields: object; readonly message: string }[]
}

/** A server with a fake service, closed when the test ends. */
export interface Rig extends Lines {
  readonly service: FakeService
  readonly server: HttpServer
  readonly key: string
  /** A key of another tenant. */
  readonly otherKey: string
  /** Sends a request with the owner's key, unless it has another one. */
  ask(path: string, init?: RequestInit): Promise<Response>
  post(path: string, body: unknown, headers?: { readonly [name: string]: string }): Promise<Response>
}

export async function startRig(
  t: TestContext,
  options: Partial<HttpOptions> = {},
  service: FakeService = fakeService(),
): Promise<Rig> {
  const [key, otherKey] = [newApiKey(), newApiKey()]
  const known = anyOf([keyFileAuthenticator(key, owner), keyFileAuthenticator(otherKey, stranger)])
  const lines: { level: string; fields: object; message: string }[] = []
  const write = (level: string) => (fields: object, message: string) => void lines.push({ level, fields, message })
  const server = await createHttpServer({
    service,
    authenticate: known.authenticate,
    log: { debug: write('debug'), info: write('info'), error: write('error') },
    ...options,
  })
  t.after(async () => {
    await server.close({ graceMs: 1_000 })
    await service.close()
  })
  const ask = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(`${server.url}${path}`, { ...init, headers: { authorization: `Bearer ${key}`, ...init.headers } })
  const post = (path: string, body: unknown, headers: { readonly [name: string]: string } = {}): Promise<Response> => {
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    return ask(path, { method: 'POST', body: text, headers: { 'content-type': 'application/json', ...headers } })
  }
  return { service, server, key, otherKey, ask, post, lines }
}

/** Sends raw bytes and resolves with everything that comes back until the connection ends. */
export function exchange(server: HttpServer, pieces: readonly (string | Uint8Array)[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(server.port, server.host)
    const answer: Buffer[] = []
    socket.on('data', (piece: Buffer) => answer.push(piece))
    socket.on('error', reject)
    socket.on('close', () => resolve(Buffer.concat(answer).toString('utf8')))
    socket.on('connect', () => {
      for (const piece of pieces) socket.write(piece)
    })
  })
}

/** Parses the text that `exchange` returned. */
export function partsOf(answer: string): { status: number; head: string; body: string } {
  const [head = '', ...rest] = answer.split('\r\n\r\n')
  return { status: Number(/^HTTP\/1\.1 ([0-9]{3})/.exec(head)?.[1]), head, body: rest.join('\r\n\r\n') }
}
