import assert from 'node:assert/strict'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { test } from 'node:test'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler } from '@modelcontextprotocol/server'
import { eventually, open, until } from './backend.fixture.ts'
import { type Served, serve } from './http-server.fixture.ts'
import { sdkServer } from './sdk-server.fixture.ts'
import type { McpOAuth } from './settings.ts'

const add = { a: 2, b: 3 }
const token = 'an-access-token-for-this-server-only'

interface World extends AsyncDisposable {
  readonly resource: Served
  readonly authorization: Served
  /** Bodies that reached the token endpoint. */
  readonly asked: URLSearchParams[]
}

/** A protected server, and its authorization server at another origin. */
async function openWorld(metadata: (origin: string) => object = () => ({}), itself = false): Promise<World> {
  const asked: URLSearchParams[] = []
  const json = (response: ServerResponse, body: object): void =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  const authorization: Served = await serve(async (request, response) => {
    const { origin } = authorization
    if (request.url?.startsWith('/.well-known/')) {
      return json(response, {
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        registration_endpoint: `${origin}/register`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
        authorization_response_iss_parameter_supported: true,
        ...metadata(origin),
      })
    }
    const body = await read(request)
    if (request.url === '/register') return json(response, { ...JSON.parse(body), client_id: 'registered' })
    asked.push(new URLSearchParams(body))
    return json(response, { access_token: token, token_type: 'Bearer', expires_in: 3_600 })
  })
  const handler = toNodeHandler(createMcpHandler(sdkServer))
  const resource: Served = await serve((request, response) => {
    const { origin } = resource
    if (request.url?.startsWith('/.well-known/oauth-protected-resource')) {
      const named = itself ? origin : authorization.origin
      return json(response, { resource: `${origin}/mcp`, authorization_servers: [named] })
    }
    if (itself && request.url?.startsWith('/.well-known/oauth-authorization-server')) {
      const endpoints = { authorization_endpoint: `${origin}/authorize`, token_endpoint: `${origin}/token` }
      return json(response, { issuer: origin, ...endpoints, response_types_supported: ['code'] })
    }
    if (itself && request.url === '/token') {
      return json(response, { access_token: token, token_type: 'Bearer', expires_in: 3_600 })
    }
    if (request.headers.authorization === `Bearer ${token}`) return void handler(request as never, response)
    const challenge = `Bearer resource_metadata="${origin}/.well-known/oauth-protected-resource/mcp"`
    return void response.writeHead(401, { 'www-authenticate': challenge }).end()
  })
  return {
    resource,
    authorization,
    asked,
    async [Symbol.asyncDispose]() {
      await resource[Symbol.asyncDispose]()
      await authorization[Symbol.asyncDispose]()
    },
  }
}

async function read(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const piece of request) text += piece
  return text
}

/** A person who consents at once; `change` is what happens to the address on the way back. */
function consent(world: World, change: (back: URL) => void = () => undefined): McpOAuth & { readonly shown: string[] } {
  const shown: string[] = []
  return {
    grant: 'authorization_code',
    redirectUrl: 'http://localhost:9/callback',
    origins: [world.authorization.origin],
    shown,
    onRedirect: async (address) => {
      shown.push(address)
      const asked = new URL(address).searchParams
      const back = new URL(asked.get('redirect_uri') ?? '')
      back.searchParams.set('code', 'a-code')
      back.searchParams.set('state', asked.get('state') ?? '')
      back.searchParams.set('iss', world.authorization.origin)
      change(back)
      return back.href
    },
  } as McpOAuth & { readonly shown: string[] }
}

function options(world: World, { shown: _, ...oauth }: McpOAuth & { readonly shown?: string[] }) {
  return { url: `${world.resource.origin}/mcp`, private: true, oauth }
}

test('the user consents once, and the token is sent to its own server alone', async () => {
  await using world = await openWorld()
  const oauth = consent(world)
  const headers = { 'x-api-key': 'secret:key' }
  await using server = open({ ...options(world, oauth), headers }, { key: 'the-key-of-the-server' })
  const calls = [server.call('add', add), server.call('add', add), server.call('add', add)]
  for (const call of calls) assert.deepEqual((await call).structuredContent, { result: 5 })
  assert.equal(oauth.shown.length, 1)
  const [asked] = world.asked
  assert.equal(asked?.get('grant_type'), 'authorization_code')
  assert.equal(asked?.get('resource'), `${world.resource.origin}/mcp`)
  assert.ok((asked?.get('code_verifier')?.length ?? 0) >= 43)
  assert.ok(server.host.concealed.includes(token))
  const foreign = JSON.stringify([world.authorization.requests, world.asked.map(String)])
  assert.ok(!foreign.includes(token), 'no access token for the authorization server')
  assert.ok(!foreign.includes('the-key-of-the-server'), 'no header of the server for the authorization server')
  assert.ok(JSON.stringify(world.resource.requests).includes('the-key-of-the-server'))
})

test('client credentials need no consent', async () => {
  await using world = await openWorld()
  const oauth: McpOAuth = {
    grant: 'client_credentials',
    clientId: 'worker',
    clientSecret: 'secret:worker',
    scopes: ['tools'],
    origins: [world.authorization.origin],
  }
  await using server = open(options(world, oauth), { worker: 'the-secret-of-the-worker' })
  assert.deepEqual((await server.call('add', add)).structuredContent, { result: 5 })
  assert.equal(world.asked[0]?.get('grant_type'), 'client_credentials')
  assert.equal(world.asked[0]?.get('scope'), 'tools')
  const basic = `Basic ${Buffer.from('worker:the-secret-of-the-worker').toString('base64')}`
  assert.ok(
    world.authorization.requests.some(({ url, headers }) => url === '/token' && headers.authorization === basic),
  )
})

test('a stored token is used again without consent', async () => {
  await using world = await openWorld()
  const kept = new Map<string, string>()
  const store = {
    get: async (key: string) => kept.get(key),
    set: async (key: string, value: string) => void kept.set(key, value),
    delete: async (key: string) => void kept.delete(key),
  }
  const oauth = consent(world)
  for (let start = 0; start < 2; start++) {
    await using server = open(options(world, { ...oauth, store }))
    await server.call('add', add)
  }
  assert.equal(oauth.shown.length, 1)
})

test('a consent may take longer than the connection timeout, and is requested once', async () => {
  await using world = await openWorld()
  const oauth = consent(world)
  const ready = Promise.withResolvers<void>()
  const onRedirect = async (address: string, signal: AbortSignal) => {
    await ready.promise
    return (await oauth.onRedirect?.(address, signal)) ?? ''
  }
  await using server = open({ ...options(world, { ...oauth, onRedirect }), timeoutMs: 1_000 })
  await assert.rejects(server.call('add', add), {
    code: 'BACKEND_UNAVAILABLE',
    message: /did not answer/,
  })
  await assert.rejects(server.call('add', add), { code: 'BACKEND_UNAVAILABLE' })
  ready.resolve()
  await until(() => world.asked.length === 1)
  await eventually(() => server.call('add', add))
  assert.equal(oauth.shown.length, 1)
})

test('a backend closes while a consent is pending', async () => {
  await using world = await openWorld()
  const asked = Promise.withResolvers<AbortSignal>()
  const onRedirect = (_address: string, signal: AbortSignal) => {
    asked.resolve(signal)
    return new Promise<string>(() => undefined)
  }
  const server = open(options(world, { ...consent(world), onRedirect }))
  const waiting = assert.rejects(server.call('add', add), { code: 'BACKEND_UNAVAILABLE' })
  const signal = await asked.promise
  await server[Symbol.asyncDispose]()
  assert.ok(signal.aborted)
  await waiting
})

test('discovery reaches only the authorization servers that the host names', async () => {
  await using world = await openWorld()
  const { origins: _, ...nowhere } = consent(world)
  await using server = open(options(world, nowhere))
  await assert.rejects(server.call('add', add), { code: 'EGRESS_DENIED' })
  assert.deepEqual(world.authorization.requests, [])
})

test('a consent URL that is not http or https is never shown to the user', async () => {
  await using world = await openWorld(() => ({ authorization_endpoint: 'javascript:alert(1)' }))
  const oauth = consent(world)
  await using server = open(options(world, oauth))
  await assert.rejects(server.call('add', add), { code: 'BACKEND_UNAVAILABLE' })
  assert.deepEqual(oauth.shown, [])
})

test('a redirect to another URI, from another issuer, or without a code is refused', async () => {
  const changes: ((back: URL) => void)[] = [
    (back) => back.searchParams.set('state', 'another'),
    (back) => back.searchParams.set('iss', 'https://evil.example'),
    (back) => back.searchParams.delete('iss'),
    (back) => back.searchParams.delete('code'),
  ]
  for (const change of changes) {
    await using world = await openWorld()
    await using server = open(options(world, consent(world, change)))
    await assert.rejects(server.call('add', add), { code: 'BACKEND_UNAVAILABLE', effect: 'none' })
    assert.deepEqual(world.asked, [], 'no code was exchanged')
  }
})

test('a server that names itself as its authorization server receives no credentials of another issuer', async () => {
  await using world = await openWorld(undefined, true)
  await using corporate = await openWorld()
  const basic = Buffer.from('worker:the-secret-of-the-worker').toString('base64')
  const tried = async (origins: readonly string[]): Promise<boolean> => {
    const oauth: McpOAuth = { grant: 'client_credentials', clientId: 'worker', clientSecret: 'secret:worker', origins }
    await using server = open(options(world, oauth), { worker: 'the-secret-of-the-worker' })
    await server.call('add', add).catch(() => undefined)
    return JSON.stringify(world.resource.requests).includes(basic)
  }
  assert.equal(await tried([corporate.authorization.origin]), false)
  assert.equal(await tried([world.resource.origin]), true, 'the host may name it')
})

test('a token stored for one server URL is not sent to another server of the same name', async () => {
  await using first = await openWorld()
  await using second = await openWorld()
  const kept = new Map<string, string>()
  const store = {
    get: async (key: string) => kept.get(key),
    set: async (key: string, value: string) => void kept.set(key, value),
    delete: async (key: string) => void kept.delete(key),
  }
  {
    await using server = open(options(first, { ...consent(first), store }))
    await server.call('add', add)
  }
  {
    await using server = open(options(second, { ...consent(second), store }))
    await server.call('add', add)
  }
  assert.equal(second.resource.requests[0]?.headers.authorization, undefined)
})
