import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { open, until } from './backend.fixture.ts'
import { everythingAt, freePort } from './everything.fixture.ts'
import { serve } from './http-server.fixture.ts'

const sum = { a: 2, b: 3 }

test('the backend reconnects to the everything server over HTTP after a restart', async () => {
  const port = await freePort()
  await using first = await everythingAt(port)
  await using server = open({ url: `http://127.0.0.1:${port}/mcp`, private: true })
  await server.call('get-sum', sum)
  await first.kill()
  await using _second = await everythingAt(port)
  assert.match((await server.call('get-sum', sum)).content[0]?.text ?? '', /is 5/)
  assert.deepEqual(await server.backend.health?.(AbortSignal.timeout(10_000)), { status: 'up' })
  const life = server.host.reports.filter(({ kind }) => kind !== 'log' && kind !== 'changed')
  assert.deepEqual(
    life.map(({ kind }) => kind),
    ['up', 'down', 'up'],
  )
  assert.equal(life[1]?.message, 'The MCP server test has forgotten the session.')
})

test('a call fails when the everything server is killed during it, and the backend is down', async () => {
  const port = await freePort()
  await using first = await everythingAt(port)
  await using server = open({ url: `http://127.0.0.1:${port}/mcp`, private: true })
  const started = Promise.withResolvers<void>()
  const long = { duration: 600, steps: 6_000 }
  // Without a time limit of its own: only the end of the connection can end it.
  const context = { signal: new AbortController().signal, progress: () => started.resolve() }
  const running = server.call('trigger-long-running-operation', long, context)
  running.catch(() => undefined)
  await started.promise
  await first.kill()
  await assert.rejects(running, (error) => {
    assert.ok(ToolError.is(error))
    assert.equal(error.code, 'BACKEND_FAILED')
    assert.equal(error.effect, 'possible')
    assert.match(error.message, /The connection broke before the server answered/)
    return true
  })
  await until(() => server.host.reports.some(({ kind }) => kind === 'down'))
  await assert.rejects(server.call('get-sum', sum), { code: 'BACKEND_UNAVAILABLE', effect: 'none' })
  assert.equal((await server.backend.health?.(AbortSignal.timeout(10_000)))?.status, 'down')
  await using _second = await everythingAt(port)
  const { content } = await server.call('get-sum', sum)
  assert.match(content[0]?.text ?? '', /is 5/)
})

/** Speaks 2025-11-25 with a session, and gives every call the same refusal. */
function refusing(status: number, body: string, sessions = true) {
  let calls = 0
  let greetings = 0
  const served = serve(async (request, response) => {
    let text = ''
    for await (const piece of request) text += piece
    const { id, method } = JSON.parse(text || '{}')
    const json = (content: object): void => {
      response
        .writeHead(200, { 'content-type': 'application/json', ...(sessions ? { 'mcp-session-id': 'one' } : {}) })
        .end(JSON.stringify({ jsonrpc: '2.0', id, ...content }))
    }
    if (request.method !== 'POST') response.writeHead(405).end()
    else if (id === undefined) response.writeHead(202).end()
    else if (method === 'initialize') {
      greetings += 1
      const serverInfo = { name: 'hand', version: '1' }
      json({ result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo } })
    } else if (method === 'tools/call') {
      calls += 1
      response.writeHead(status).end(body.replace('$authorization', request.headers.authorization ?? ''))
    } else json({ error: { code: -32_601, message: 'Method not found' } })
  })
  return served.then((whole) => ({ ...whole, seen: () => ({ calls, greetings }) }))
}

const noSession = JSON.stringify({ jsonrpc: '2.0', error: { code: -32_000, message: 'No valid session ID' }, id: null })

test('the client does not open a third session when the server refuses the second one', async () => {
  await using remote = await refusing(400, noSession)
  await using server = open({ url: remote.origin, private: true })
  await assert.rejects(server.call('add', sum), {
    code: 'BACKEND_FAILED',
    message: 'The MCP server test answered with HTTP 400: "No valid session ID".',
  })
  assert.deepEqual(remote.seen(), { calls: 2, greetings: 2 })
})

test('the client does not retry a refusal that is not about the session, or from a server without sessions', async () => {
  await using other = await refusing(400, 'no such argument')
  await using first = open({ url: other.origin, private: true })
  await assert.rejects(first.call('add', sum), { code: 'BACKEND_FAILED', message: /HTTP 400: "no such argument"/ })
  assert.deepEqual(other.seen(), { calls: 1, greetings: 1 })
  await using without = await refusing(400, noSession, false)
  await using second = open({ url: without.origin, private: true })
  await assert.rejects(second.call('add', sum), { code: 'BACKEND_FAILED' })
  assert.deepEqual(without.seen(), { calls: 1, greetings: 1 })
})

test('the error quotes the text of a refusal truncated, escaped and without the request headers', async () => {
  const headers = { authorization: 'Bearer secret:token' }
  await using remote = await refusing(422, `bad \u001b[2J $authorization ${'x'.repeat(200_000)}`)
  await using server = open({ url: remote.origin, private: true, headers }, { token: 'correct-horse-battery' })
  await assert.rejects(server.call('add', sum), (error) => {
    assert.ok(ToolError.is(error))
    assert.match(error.message, /HTTP 422: "bad \\u001b\[2J \[redacted\] x+"… \(\d+ characters\)\.$/)
    assert.ok(error.message.length < 500)
    assert.equal(error.details?.status, 422)
    return true
  })
})
