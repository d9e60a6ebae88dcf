import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { bridge } from '@gantry/mcp/internal/server/bridge'
import { createKeyControl } from '../http/authentication/key-control.ts'
import { createLiveKeys } from '../http/authentication/live-keys.ts'
import { somePair } from '../http/authentication/signed-request.fixture.ts'
import { signedRequestAuthenticator } from '../http/authentication/signed-request.ts'
import { memoryKeys } from '../storage/keys/api-keys.fixture.ts'
import type { Nonce } from '../storage/keys/api-keys.ts'
import { lineClient } from './stdio.fixture.ts'

interface SentMessage {
  readonly id?: unknown
  readonly method: string
}
type Reply = (said: SentMessage, response: ServerResponse) => void

/** A service whose sessions the test can end, and which answers within one as `reply` does. */
async function forgetful(t: TestContext, reply: Reply, key?: string, look?: (request: IncomingMessage) => void) {
  let [opened, refusing] = [0, false]
  let current = ''
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    look?.(request)
    if (request.method !== 'POST') return void response.writeHead(405).end()
    const said = JSON.parse(await new Response(request as never).text()) as SentMessage
    if (said.method === 'initialize') {
      if (refusing) return json(response, { error: { message: 'Not yet.' } }, 503)
      opened += 1
      current = `s${opened}`
      response.setHeader('mcp-session-id', current)
      json(response, { jsonrpc: '2.0', id: said.id, result: {} })
    } else if (request.headers['mcp-session-id'] !== current) {
      json(response, { jsonrpc: '2.0', id: null, error: { code: -32_001, message: 'Session not found' } }, 404)
    } else if (said.id === undefined) response.writeHead(202).end()
    else reply(said, response)
  }
  const server = createServer((request, response) => void answer(request, response))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    client: lineClient(t, (ends) => bridge({ url, key, ...ends })),
    opened: () => opened,
    forget: () => {
      current = 'none'
    },
    refuse: (yes: boolean) => {
      refusing = yes
    },
  }
}

function json(response: ServerResponse, body: object, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

const echo: Reply = ({ id, method }, response) => json(response, { jsonrpc: '2.0', id, result: { method } })

test('concurrent requests that find their session expired are all answered, in one new session', async (t) => {
  const { client, opened, forget } = await forgetful(t, echo)
  await client.open()
  for (const round of [1, 2]) {
    forget()
    const answers = await Promise.all(Array.from({ length: 8 }, () => client.request('ping')))
    assert.ok(answers.every(({ result }) => result?.method === 'ping'))
    assert.equal(opened(), 1 + round)
  }
})

test('a session that cannot be reopened fails the waiting requests, and the next request tries again', async (t) => {
  const { client, forget, refuse } = await forgetful(t, echo)
  await client.open()
  forget()
  refuse(true)
  const failed = await Promise.all(Array.from({ length: 4 }, () => client.request('ping')))
  assert.ok(failed.every(({ error }) => error?.message === 'Not yet.'))
  refuse(false)
  assert.deepEqual((await client.request('ping')).result, { method: 'ping' })
})

test('with a signing key each request is signed with its session and method, and the key is not sent', async (t) => {
  const records = memoryKeys()
  const control = createKeyControl(records, async () => undefined)
  const { privateKey, publicKey } = somePair()
  const { key } = await control.create(
    { name: 'bot', publicKey },
    { principal: 'o', tenant: 'acme', permissions: ['*'] },
  )
  const nonces = { use: async (items: readonly Nonce[]) => items.map(() => true) }
  const { authenticate } = signedRequestAuthenticator(createLiveKeys(records), nonces)
  const seed = privateKey.export({ format: 'jwk' }).d ?? ''
  const known: Promise<unknown>[] = []
  const sent: string[] = []
  const look = ({ method = '', url = '', headers }: IncomingMessage): void => {
    sent.push(JSON.stringify(headers))
    known.push(authenticate({ method, path: url, headers }, t.signal))
  }
  const { client } = await forgetful(t, echo, `gs_${key.id}_${seed}`, look)
  await client.open()
  await client.request('ping')
  for (const one of await Promise.all(known)) assert.ok(one)
  assert.ok(sent.some((headers) => headers.includes('\\"mcp-session-id\\"')))
  assert.ok(sent.every((headers) => !headers.includes(seed)))
})

test('a request is answered under its own id, whatever the service answers', async (t) => {
  const stream = { 'content-type': 'text/event-stream' }
  const progress = { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: 1, progress: 1 } }
  const replies: { readonly [method: string]: (response: ServerResponse) => void } = {
    unaddressed: (response) =>
      json(response, { jsonrpc: '2.0', id: null, error: { code: -32_600, message: 'No.' } }, 400),
    streamed: (response) =>
      response.writeHead(200, stream).end('data: {"jsonrpc":"2.0","id":null,"error":{"code":1}}\n\n'),
    unanswered: (response) => response.writeHead(200, stream).end(`data: ${JSON.stringify(progress)}\n\n`),
    accepted: (response) => response.writeHead(202).end(),
    html: (response) => response.writeHead(502, { 'content-type': 'text/html' }).end('<p>'),
    broken: (response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{'),
    gone: (response) => response.destroy(),
    lost: (response) => json(response, { jsonrpc: '2.0', id: null, error: { code: -32_001, message: 'Lost.' } }, 404),
  }
  const { client } = await forgetful(t, ({ method }, response) => replies[method]?.(response))
  await client.open()
  for (const method of Object.keys(replies)) {
    const { error, result } = await client.request(method)
    assert.ok(error !== undefined && result === undefined, method)
  }
})
