import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { test } from 'node:test'
import { fakeContext, fakeHost } from '@gantry/conformance/internal/backend'
import { ToolError } from '@gantry/contract'
import type { ProgressReport } from '@gantry/core/internal/backends/backend'
import { createEgressGuard } from '@gantry/core/internal/egress/guard'
import { open, progressInto, toolNamed, until } from './backend.fixture.ts'
import { serve, serveModern, serveSessions } from './http-server.fixture.ts'
import { mcp } from './mcp.ts'

const add = { a: 2, b: 3 }

test('the client lists and calls a server of 2026-07-28, and receives its notifications', async () => {
  await using remote = await serveModern()
  await using server = open({ url: `${remote.origin}/mcp`, private: true })
  assert.deepEqual(
    (await server.discover()).map(({ name }) => name),
    ['add', 'ask', 'think', 'slow'],
  )
  assert.deepEqual((await server.call('add', add)).structuredContent, { result: 5 })
  const reports: ProgressReport[] = []
  await server.call('slow', {}, progressInto(reports))
  assert.deepEqual(
    reports.map(({ progress }) => progress),
    [1, 2, 3],
  )
  assert.deepEqual(await server.backend.health?.(AbortSignal.timeout(5_000)), { status: 'up' })
  assert.ok(remote.requests.some(({ headers }) => headers['mcp-protocol-version'] === '2026-07-28'))
})

test('the client lists and calls a server of 2025-11-25, and reopens a session that the server lost', async () => {
  await using remote = await serveSessions()
  await using server = open({ url: `${remote.origin}/mcp`, private: true })
  assert.equal((await server.discover()).length, 4)
  assert.deepEqual((await server.call('add', add)).structuredContent, { result: 5 })
  remote.forget()
  assert.deepEqual((await server.call('add', add)).structuredContent, { result: 5 })
  assert.equal(remote.sessions(), 2)
})

for (const [revision, start] of Object.entries({ '2026-07-28': serveModern, '2025-11-25': serveSessions })) {
  test(`a call to a server of ${revision} uses its tenant’s share of egress, and shared requests use none`, async () => {
    await using remote = await start()
    const egress = createEgressGuard()
    const tenants: (string | undefined)[] = []
    const watched: typeof egress.fetch = (scope) => (input, init) => {
      tenants.push(scope.tenant)
      return egress.fetch(scope)(input, init)
    }
    const backend = mcp({ name: 'test', url: remote.origin, private: true })
    backend.attach?.(fakeHost({ ...egress, fetch: watched }, {}))
    try {
      await backend.discover?.(AbortSignal.timeout(20_000))
      assert.ok(tenants.length > 0 && tenants.every((tenant) => tenant === undefined))
      for (const tenant of ['acme', 'umbrella']) {
        tenants.length = 0
        const context = fakeContext(AbortSignal.timeout(20_000))
        const identity = { ...context.identity, tenant }
        const tool = toolNamed('add')
        const call = { id: 'test:add:1.0.0', tool, args: add, binding: { kind: 'mcp' } }
        await backend.call(call, { ...context, identity })
        assert.deepEqual([...new Set(tenants)], [tenant])
      }
    } finally {
      await backend.close?.(AbortSignal.timeout(10_000))
      await egress.close()
    }
  })
}

test('the handlers answer input requests of 2026-07-28', async () => {
  await using remote = await serveModern()
  await using server = open({
    url: remote.origin,
    private: true,
    onElicitation: async () => ({ action: 'accept', content: { name: 'Ada' } }),
    onSampling: async () => ({ role: 'assistant', model: 'deep', content: { type: 'text', text: '42' } }),
  })
  const who = JSON.stringify((await server.call('ask')).structuredContent)
  assert.match(who, /"name":"Ada"/)
  const thought = JSON.stringify((await server.call('think')).structuredContent)
  assert.match(thought, /"text":"42"/)
})

test('an input request of 2026-07-28 without a handler fails the call with the name of the missing handler', async () => {
  await using remote = await serveModern()
  await using server = open({ url: remote.origin, private: true })
  await assert.rejects(server.call('ask'), {
    code: 'BACKEND_FAILED',
    message: /elicitation, and this backend has no onElicitation handler/,
  })
  await assert.rejects(server.call('think'), {
    code: 'BACKEND_FAILED',
    message: /sampling, and this backend has no onSampling handler/,
  })
})

test('the client resolves secrets in headers and sends them to the server', async () => {
  await using remote = await serveModern()
  const headers = { authorization: 'Bearer secret:token' }
  await using server = open({ url: remote.origin, private: true, headers }, { token: 'correct-horse' })
  await server.call('add', add)
  assert.ok(remote.requests.every(({ headers: sent }) => sent.authorization === 'Bearer correct-horse'))
})

test('the client connects to a private address only with `private`', async () => {
  await using remote = await serveModern()
  await using server = open({ url: remote.origin })
  await assert.rejects(server.discover(), { code: 'EGRESS_DENIED' })
  assert.deepEqual(remote.requests, [])
})

test('a redirect to another origin is not followed', async () => {
  await using elsewhere = await serveModern()
  await using remote = await serve((_request, response) =>
    response.writeHead(307, { location: `${elsewhere.origin}/mcp` }).end(),
  )
  await using server = open({ url: remote.origin, private: true })
  await assert.rejects(server.call('add', add), { code: 'BACKEND_UNAVAILABLE' })
  assert.deepEqual(elsewhere.requests, [])
})

test('an unreachable server makes the backend unavailable, with effect none', async () => {
  const gone = await serveModern()
  await gone[Symbol.asyncDispose]()
  await using server = open({ url: gone.origin, private: true })
  await assert.rejects(server.call('add', add), { code: 'BACKEND_UNAVAILABLE', effect: 'none' })
})

/** Speaks as much of 2025-11-25 as it takes to get a call, which `answer` then gets. */
function byHand(
  answer: (id: unknown, write: (text: string) => void, end: () => void, response: ServerResponse) => void,
) {
  return serve(async (request, response) => {
    let text = ''
    for await (const piece of request) text += piece
    const { id, method } = JSON.parse(text || '{}')
    const json = (body: object): void => {
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ jsonrpc: '2.0', id, ...body }))
    }
    if (request.method !== 'POST') response.writeHead(405).end()
    else if (id === undefined) response.writeHead(202).end()
    else if (method === 'initialize') {
      const serverInfo = { name: 'hand', version: '1' }
      json({ result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo } })
    } else if (method === 'tools/call') {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      answer(
        id,
        (piece) => response.write(piece),
        () => response.end(),
        response,
      )
    } else json({ error: { code: -32_601, message: 'Method not found' } })
  })
}

test('a stream that ends without a response fails the call at once', async () => {
  await using remote = await byHand((_id, _write, end) => end())
  await using server = open({ url: remote.origin, private: true })
  await assert.rejects(server.call('add', add), {
    code: 'BACKEND_FAILED',
    message: /closed the stream without an answer/,
  })
})

test('an event over the size limit fails the call, and many small events do not', async () => {
  await using small = await byHand((id, write, end) => {
    const progress = { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: 'x', progress: 1 } }
    for (let n = 0; n < 200; n++) write(`data: ${JSON.stringify(progress)}\n\n`)
    write(`data: ${JSON.stringify({ jsonrpc: '2.0', id, result: { content: [] } })}\n\n`)
    end()
  })
  await using patient = open({ url: small.origin, private: true, maxResponseBytes: 4_096 })
  assert.deepEqual(await patient.call('add', add), { content: [] })
  await using large = await byHand((_id, write) => write(`data: ${'x'.repeat(10_000)}`))
  await using server = open({ url: large.origin, private: true, maxResponseBytes: 4_096 })
  await assert.rejects(server.call('add', add), (error) => ToolError.is(error) && error.code === 'BACKEND_FAILED')
})

test('a cancelled call closes its connection although the server keeps its response open', async () => {
  const started = Promise.withResolvers<void>()
  const closed = Promise.withResolvers<void>()
  await using remote = await byHand((_id, write, _end, response) => {
    response.on('close', closed.resolve)
    write(': waiting\n\n')
    started.resolve()
  })
  await using server = open({ url: remote.origin, private: true })
  const stop = new AbortController()
  const waiting = server.call('add', add, { signal: stop.signal })
  await started.promise
  stop.abort(new Error('enough'))
  await assert.rejects(waiting, /enough/)
  await closed.promise
})

test('the backend refreshes its tools when a server of 2026-07-28 announces a change', async () => {
  await using remote = await serveModern()
  await using server = open({ url: remote.origin, private: true })
  await server.discover()
  const lists = () => remote.requests.filter(({ headers }) => headers['mcp-method'] === 'tools/list').length
  const before = lists()
  remote.toolsChanged()
  await until(() => lists() > before)
})
