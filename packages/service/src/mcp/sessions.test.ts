import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sseData } from '@gantry/mcp/internal/server/bridge'
import { sampleTool } from '../../test/sample-tool.fixture.ts'
import { type Presented, unauthenticated } from '../http/authentication/authenticator.ts'
import { owner } from '../http/http.fixture.ts'
import { fakeService } from '../http/service.fixture.ts'
import { stub } from '../stub.fixture.ts'
import { accept, envelope, openMcp, revision } from './mcp.fixture.ts'

const later = sampleTool({
  namespace: 'later',
  name: 'one',
  description: 'Comes later.',
  run: () => 1,
})

/** The stream that notifies a client of 2026-07-28 of changed tools. */
function listen(url: string, authorization: string, signal?: AbortSignal): Promise<Response> {
  const params = { notifications: { toolsListChanged: true }, _meta: envelope }
  return fetch(`${url}/mcp`, {
    method: 'POST',
    body: JSON.stringify({ jsonrpc: '2.0', id: 'l', method: 'subscriptions/listen', params }),
    headers: {
      accept,
      'content-type': 'application/json',
      authorization,
      'mcp-protocol-version': revision,
      'mcp-method': 'subscriptions/listen',
    },
    ...(signal === undefined ? {} : { signal }),
  })
}

test('a session accepts only the caller who opened it', async (t) => {
  const { session, otherKey, server, key } = await openMcp(t)
  const open = await session()
  assert.equal((await open.request('tools/list')).result.tools.length, 5)
  const hijacked = await open.send({ id: 9, method: 'tools/list', params: {} }, { key: otherKey })
  assert.equal(hijacked.response.status, 404)
  const invented = await open.send({ id: 9, method: 'tools/list' }, { headers: { 'mcp-session-id': 'x'.repeat(32) } })
  assert.equal(invented.response.status, 404)
  // The answer for another caller's session equals the answer for one that never existed.
  assert.deepEqual(hijacked.messages, invented.messages)
  for (const method of ['GET', 'DELETE']) {
    const headers = { accept, 'mcp-session-id': open.id, authorization: `Bearer ${otherKey}` }
    assert.equal((await fetch(`${server.url}/mcp`, { method, headers })).status, 404)
  }
  assert.equal((await open.request('tools/list')).result.tools.length, 5)
  const headers = { 'mcp-session-id': open.id, authorization: `Bearer ${key}` }
  assert.equal((await fetch(`${server.url}/mcp`, { method: 'DELETE', headers })).status, 200)
  assert.equal((await open.send({ id: 9, method: 'tools/list' })).response.status, 404)
})

test('a caller over its limit of sessions loses the one that was unused for longest', async (t) => {
  const { session, otherKey } = await openMcp(t, { limits: { sessionsEach: 2 } })
  const [first, second, other] = [await session(), await session(), await session(otherKey)]
  await first.request('ping')
  const third = await session()
  assert.equal((await second.send({ id: 1, method: 'ping' })).response.status, 404)
  for (const open of [first, third, other]) assert.deepEqual((await open.request('ping')).result, {})
})

test('when all sessions are taken, a new one replaces an idle one of another caller, and none that is in use', async (t) => {
  const { session, key, otherKey, post, server } = await openMcp(t, { limits: { sessions: 1 } })
  const idle = await session(otherKey)
  const used = await session()
  assert.equal((await idle.send({ id: 1, method: 'ping' })).response.status, 404)
  const leave = new AbortController()
  t.after(() => leave.abort())
  const headers = { accept: 'text/event-stream', 'mcp-session-id': used.id, authorization: `Bearer ${key}` }
  assert.equal((await fetch(`${server.url}/mcp`, { headers, signal: leave.signal })).status, 200)
  const params = { protocolVersion: '2025-11-25', clientInfo: { name: 'test', version: '1' }, capabilities: {} }
  const asked = { accept, authorization: `Bearer ${otherKey}` }
  const refused = await post('/mcp', { jsonrpc: '2.0', id: 1, method: 'initialize', params }, asked)
  assert.equal(refused.status, 503)
  assert.deepEqual((await used.request('ping')).result, {})
})

test('ten principals at their limit of sessions leave some for other tenants', async (t) => {
  const authenticate = async ({ headers }: Presented) => {
    const [tenant = '', principal = ''] = (headers.authorization ?? '').slice('Bearer '.length).split('/')
    return { identity: { tenant, principal, permissions: ['*'] } }
  }
  const { session } = await openMcp(t, { limits: { sessions: 40, sessionsEach: 4 } }, fakeService(), { authenticate })
  const theirs = await session('other/eve')
  const flood = Array.from({ length: 10 }, (_, index) => `acme/p${index}`)
  await Promise.all(flood.flatMap((who) => Array.from({ length: 4 }, () => session(who))))
  const opened = [theirs, ...(await Promise.all(Array.from({ length: 3 }, () => session('other/eve'))))]
  for (const one of opened) assert.deepEqual((await one.request('ping')).result, {})
  for (const who of ['third/ann', 'fourth/ann', 'acme/late']) {
    assert.deepEqual((await (await session(who)).request('ping')).result, {}, who)
  }
})

test('an idle session expires', async (t) => {
  const { session } = await openMcp(t, { limits: { idleMs: 20 } })
  const open = await session()
  while ((await open.send({ id: 1, method: 'ping' })).response.status !== 404) {
    await new Promise((resolve) => setTimeout(resolve, 60))
  }
})

test('without sessions each request of an earlier revision is handled by itself', async (t) => {
  const { post } = await openMcp(t, { sessions: 'none' })
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'demo__add', arguments: { a: 1, b: 2 } } }
  const answer = await post('/mcp', body, { accept })
  assert.equal(answer.status, 200)
  assert.match(await answer.text(), /"structuredContent":\{"result":3\}/)
})

test('streams whose credential is revoked end, and the session accepts another credential of its caller', async (t) => {
  let live = true
  const authenticate = async ({ headers }: Presented) => {
    if (!live && headers.authorization === 'Bearer revoked') throw unauthenticated()
    return { identity: owner }
  }
  const { session, server } = await openMcp(t, {}, fakeService(), { authenticate, limits: { recheckMs: 5 } })
  const open = await session('revoked')
  const authorization = 'Bearer revoked'
  const old = await fetch(`${server.url}/mcp`, {
    headers: { accept: 'text/event-stream', 'mcp-session-id': open.id, authorization },
  })
  const now = await listen(server.url, authorization)
  const streams = [old, now].map(({ body }) => sseData(body as ReadableStream<Uint8Array>, 10_000))
  assert.match(String((await streams[1]?.next())?.value), /subscriptions\/acknowledged/)
  live = false
  for (const stream of streams) await assert.rejects(stream.next())
  assert.equal((await open.send({ id: 1, method: 'ping' })).response.status, 401)
  assert.equal((await open.send({ id: 1, method: 'ping' }, { key: 'another' })).response.status, 200)
})

test('subscribers are notified when their tools change, and of nothing else', async (t) => {
  const service = fakeService()
  const { session, server, key } = await openMcp(t, { lookMs: 10 }, service)
  const leave = new AbortController()
  t.after(() => leave.abort())
  const open = await session()
  const old = await fetch(`${server.url}/mcp`, {
    headers: { accept: 'text/event-stream', 'mcp-session-id': open.id, authorization: `Bearer ${key}` },
    signal: leave.signal,
  })
  const now = await listen(server.url, `Bearer ${key}`, leave.signal)
  const streams = [old, now].map((response) => sseData(response.body as ReadableStream<Uint8Array>, 10_000))
  const [, fresh] = streams
  assert.match(String((await fresh?.next())?.value), /subscriptions\/acknowledged/)
  stub<{ register(tool: unknown): void }>(service.executor).register(later)
  for (const stream of streams) assert.match(String((await stream.next()).value), /notifications\/tools\/list_changed/)
})

test('a caller cannot have more streams than its limit', async (t) => {
  const { modern } = await openMcp(t, { limits: { streamsEach: 0 } })
  const { response } = await modern('subscriptions/listen', { notifications: { toolsListChanged: true } })
  assert.equal(response.status, 429)
})

test('a tenant has no more streams than its share, and others have theirs', async (t) => {
  const authenticate = async ({ headers }: Presented) => {
    const [tenant = '', principal = ''] = (headers.authorization ?? '').slice('Bearer '.length).split('/')
    return { identity: { tenant, principal, permissions: ['*'] } }
  }
  const limits = { streams: 4, streamsEach: 2 }
  const { server } = await openMcp(t, { limits }, fakeService(), { authenticate })
  const leave = new AbortController()
  t.after(() => leave.abort())
  const open = async (who: string): Promise<number> => (await listen(server.url, `Bearer ${who}`, leave.signal)).status
  const ours = [
    await open('acme/a'),
    await open('acme/a'),
    await open('acme/a'),
    await open('acme/b'),
    await open('acme/c'),
  ]
  assert.deepEqual(ours, [200, 200, 429, 200, 429])
  assert.deepEqual([await open('other/a'), await open('other/a')], [200, 503])
})
