import { request as httpRequest } from 'node:http'
import type { TestContext } from 'node:test'
import type { Identity } from '@gantry/contract'
import { type AuthenticationSettings, defaultAuthentication } from '../src/config/authentication-settings.ts'
import { newApiKey } from '../src/config/service-files.ts'
import { createKeyControl, type KeyInput, type MadeKey } from '../src/http/authentication/key-control.ts'
import { openAuthentication } from '../src/http/authentication/open-authentication.ts'
import { createHttpServer, type HttpServer } from '../src/http/server.ts'
import { type FakeService, fakeService } from '../src/http/service.fixture.ts'
import { createBus } from '../src/observe/bus.ts'
import type { Database } from '../src/storage/databases/database.ts'
import { keyRecords } from '../src/storage/keys/api-keys.ts'

export const owner: Identity = { principal: 'owner', tenant: 'acme', permissions: ['*'] }

/** The HTTP API of a service with its real authenticators and keys in a database; the service behind it is a fake. */
export interface IdentityRig {
  readonly server: HttpServer
  readonly service: FakeService
  /** The text of its key file. */
  readonly ownerKey: string
  /** The settings, which the server reads at each request. */
  readonly settings: { current: AuthenticationSettings }
  make(input: Partial<KeyInput>, maker?: Identity): Promise<MadeKey & { readonly text: string }>
  /** Sends a request with a bearer token, or with exactly these headers. */
  ask(path: string, credentials: string | { readonly [name: string]: string }, init?: RequestInit): Promise<Response>
  /** The status and the JSON body of the same request. */
  // biome-ignore lint/suspicious/noExplicitAny: a test reads it as it expects it
  seen(...asking: Parameters<IdentityRig['ask']>): Promise<readonly [number, any]>
}

export async function startIdentityRig(
  t: TestContext,
  database: Database,
  given: Partial<AuthenticationSettings> & { readonly now?: () => number } = {},
): Promise<IdentityRig> {
  const { now, ...said } = given
  const settings = { current: { ...defaultAuthentication, ...said } }
  const keys = createKeyControl(keyRecords(database), async () => undefined)
  const ownerKey = newApiKey()
  const authentication = await openAuthentication({
    database,
    owner,
    key: ownerKey,
    bus: createBus(),
    settings: {
      get authentication() {
        return settings.current
      },
    },
    ...(now === undefined ? {} : { now }),
  })
  const service: FakeService = { ...fakeService(), keys }
  const silent = (): void => undefined
  const server = await createHttpServer({
    service,
    authenticate: authentication.authenticate,
    log: { debug: silent, info: silent, error: silent },
  })
  t.after(async () => {
    await server.close({ graceMs: 1_000 })
    await authentication.close()
    await service.close()
  })
  const ask: IdentityRig['ask'] = (path, credentials, init = {}) => {
    const own = typeof credentials === 'string' ? { authorization: `Bearer ${credentials}` } : credentials
    return fetch(`${server.url}${path}`, { ...init, headers: { ...own, ...init.headers } })
  }
  return {
    server,
    service,
    ownerKey,
    settings,
    ask,
    async make(input, maker = owner) {
      const made = await keys.create({ name: 'some', ...input }, maker)
      return { ...made, text: made.text ?? '' }
    },
    async seen(...asking) {
      const response = await ask(...asking)
      return [response.status, await response.json()]
    },
  }
}

/** The options of a request that submits a call. */
export function calling(body: object = {}, headers: { readonly [name: string]: string } = {}): RequestInit {
  const text = JSON.stringify({ tool: 'demo:add', args: { a: 5, b: 3 }, ...body })
  return { method: 'POST', body: text, headers: { 'content-type': 'application/json', ...headers } }
}

/** Sends a request with exactly these headers, some of which `fetch` would overwrite. */
export function raw(
  url: string,
  path: string,
  method: string,
  headers: { [name: string]: string },
  body: string,
  // biome-ignore lint/suspicious/noExplicitAny: a test reads it as it expects it
): Promise<readonly [number, any]> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(`${url}${path}`, {
      method,
      headers: { ...headers, 'content-length': Buffer.byteLength(body) },
    })
    request.on('error', reject)
    request.on('response', async (response) => {
      const pieces: Buffer[] = []
      for await (const piece of response) pieces.push(piece)
      resolve([response.statusCode ?? 0, JSON.parse(Buffer.concat(pieces).toString())])
    })
    request.end(body)
  })
}
