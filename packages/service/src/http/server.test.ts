import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CallView, type ErrorInfo, type Result, ToolError } from '@gantry/contract'
import { stub } from '../stub.fixture.ts'
import { exchange, partsOf, startRig } from './http.fixture.ts'
import { createHttpServer } from './server.ts'

/** The error of a response, which must have the common error body. */
async function errorOf(response: Response): Promise<ErrorInfo> {
  const body = (await response.json()) as { readonly error: ErrorInfo }
  assert.deepEqual(Object.keys(body), ['error'])
  const members = ['code', 'message', 'stage', 'retryable', 'effect', 'details']
  assert.deepEqual(Object.keys(body.error), members)
  return body.error
}

test('a call is answered with its Result, whatever its status', async (t) => {
  const { post } = await startRig(t)
  const added = await post('/v1/calls', { tool: 'demo:add', args: { a: 5, b: 3 } })
  assert.equal(added.status, 200)
  const result = (await added.json()) as Result
  assert.deepEqual([result.status, result.output], ['ok', { result: 8 }])
  assert.equal(added.headers.get('location'), `/v1/calls/${result.callId}`)
  const failed = await post('/v1/calls', { tool: 'demo:fail', args: { message: 'no luck' } })
  assert.deepEqual([failed.status, ((await failed.json()) as Result).error?.code], [200, 'BACKEND_FAILED'])
})

test('a call that takes longer than waitMs is answered with its state, and goes on', async (t) => {
  const { post, ask } = await startRig(t)
  const answer = await post('/v1/calls', { tool: 'demo:sleep', args: { ms: 60_000 }, waitMs: 20 })
  assert.equal(answer.status, 202)
  const { callId, state } = (await answer.json()) as { callId: string; state: string }
  assert.deepEqual([state, answer.headers.get('location')], ['running', `/v1/calls/${callId}`])
  const cancelled = await ask(`/v1/calls/${callId}/cancel`, { method: 'POST' })
  assert.equal(cancelled.status, 200)
  const view = (await (await ask(`/v1/calls/${callId}?waitMs=20000`)).json()) as CallView
  assert.deepEqual([view.state, view.result?.status], ['cancelled', 'cancelled'])
})

test('waitMs 0 is answered at once, and a repeat of the key with the current state', async (t) => {
  const { post, ask, service } = await startRig(t)
  const call = { tool: 'demo:add', args: { a: 1, b: 2 }, idempotencyKey: 'k1', waitMs: 0 }
  const first = await post('/v1/calls', call)
  const { callId, state } = (await first.json()) as { callId: string; state: string }
  assert.deepEqual([first.status, state], [202, 'queued'])
  await ask(`/v1/calls/${callId}?waitMs=20000`)
  const second = await post('/v1/calls', call)
  assert.deepEqual([second.status, ((await second.json()) as Result).callId], [200, callId])
  assert.equal(service.ran.length, 1)
})

test('the header Idempotency-Key is the key; a different key in the body is refused', async (t) => {
  const { post, service } = await startRig(t)
  const call = { tool: 'demo:add', args: { a: 1, b: 2 } }
  await post('/v1/calls', call, { 'idempotency-key': 'one' })
  await post('/v1/calls', { ...call, idempotencyKey: 'one' }, { 'idempotency-key': 'one' })
  assert.deepEqual([service.ran.length, service.submitted[0]?.idempotencyKey], [1, 'one'])
  const both = await post('/v1/calls', { ...call, idempotencyKey: 'two' }, { 'idempotency-key': 'one' })
  assert.deepEqual([both.status, (await errorOf(both)).code], [400, 'PAYLOAD_INVALID'])
  const other = await post('/v1/calls', { ...call, args: { a: 9, b: 9 } }, { 'idempotency-key': 'one' })
  assert.deepEqual([other.status, (await errorOf(other)).code], [409, 'IDEMPOTENCY_CONFLICT'])
})

test('every option of a call reaches the service, with the trace context', async (t) => {
  const { post, service } = await startRig(t)
  const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
  const options = {
    idempotencyKey: 'k',
    priority: 5,
    timeoutMs: 1_000,
    delayMs: 1,
    deadline: '2030-01-01T00:00:00Z',
    callback: 'https://example.com/done',
    schemaDigest: 'sha256:1',
  }
  await post('/v1/calls', { tool: 'demo:add', args: { a: 1, b: 2 }, waitMs: 0, ...options }, { traceparent })
  const expected = { kind: 'call', tool: 'demo:add', args: { a: 1, b: 2 }, ...options, traceparent }
  assert.deepEqual(service.submitted[0], expected)
  await post('/v1/calls', { tool: 'demo:add', waitMs: 0 }, { traceparent: 'not-a-trace' })
  assert.deepEqual(service.submitted[1], { kind: 'call', tool: 'demo:add', args: {} })
})

test('a chain is answered with its ChainResult', async (t) => {
  const { post } = await startRig(t)
  const steps = [
    { id: 'sum', tool: 'demo:add', args: { a: '{{input.a}}', b: 3 } },
    { tool: 'demo:echo', args: { value: '{{prev.result}}' } },
  ]
  const answer = await post('/v1/chains', { steps, input: { a: 5 } })
  const { status, output } = (await answer.json()) as { status: string; output: unknown }
  assert.deepEqual([answer.status, status, output], [200, 'ok', { value: 8 }])
})

test('an invalid body is refused with every failing path and the nearest known name', async (t) => {
  const { post } = await startRig(t)
  const answer = await post('/v1/calls', { tool: 'demo:add', arg: {}, waitMs: -1, priority: 'high' })
  assert.equal(answer.status, 400)
  const { code, details } = await errorOf(answer)
  const issues = stub<{ path: string; message: string }[]>(details?.issues)
  assert.equal(code, 'PAYLOAD_INVALID')
  assert.deepEqual(issues.map(({ path }) => path).sort(), ['/arg', '/priority', '/waitMs'])
  assert.match(issues.find(({ path }) => path === '/arg')?.message ?? '', /did you mean "args"/)
  for (const body of ['', '[]', '"x"', 'null', '{"tool":"demo:add"} x', '{"tool":7}', '{}']) {
    const refused = await post('/v1/calls', body)
    assert.deepEqual([refused.status, (await errorOf(refused)).code], [400, 'PAYLOAD_INVALID'], body)
  }
  const long = await post('/v1/calls', { tool: 'demo:add', waitMs: 120_001 })
  assert.deepEqual([long.status, (await errorOf(long)).code], [400, 'PAYLOAD_INVALID'])
})

test('an invalid query, or a repeated parameter, is refused', async (t) => {
  const { ask } = await startRig(t)
  for (const query of ['limt=1', 'limit=0', 'limit=x', 'limit=1&limit=2', '__proto__=1']) {
    const refused = await ask(`/v1/calls?${query}`)
    assert.deepEqual([refused.status, (await errorOf(refused)).code], [400, 'PAYLOAD_INVALID'], query)
  }
  assert.equal((await ask('/v1/calls?limit=1')).status, 200)
})

test('a refusal of the service has the status of its code, and a Retry-After header', async (t) => {
  const { post, service } = await startRig(t)
  const call = { tool: 'demo:add', args: { a: 1, b: 2 } }
  const refused = async (error: unknown): Promise<Response> => {
    service.refusals.push(error)
    return post('/v1/calls', call)
  }
  const limited = await refused(new ToolError('RATE_LIMITED', 'Too many.', { details: { retryAfterMs: 1_500 } }))
  assert.deepEqual([limited.status, limited.headers.get('retry-after')], [429, '2'])
  const unavailable = await refused(new ToolError('STORE_UNAVAILABLE', 'No database.'))
  assert.deepEqual([unavailable.status, unavailable.headers.get('retry-after')], [503, '1'])
  const denied = await refused(new ToolError('DENIED', 'Not you.'))
  assert.deepEqual([denied.status, (await errorOf(denied)).code], [403, 'DENIED'])
  const unknown = await post('/v1/calls', { tool: 'demo:ad' })
  assert.deepEqual([unknown.status, (await errorOf(unknown)).details?.nearest], [404, ['demo:add']])
})

test('a response that cannot be written is cut off, and affects no other request', async (t) => {
  const { service } = await startRig(t)
  const broken = { ...service, metrics: async () => ({ type: 'text/plain\r\nx-evil: 1', text: 'up 1\n' }) }
  const { ask, lines } = await startRig(t, { service: broken })
  await assert.rejects(ask('/metrics'))
  assert.equal((await ask('/healthz')).status, 200)
  assert.equal(lines.filter(({ level }) => level === 'error').length, 1)
})

test('an unexpected error is INTERNAL, and its details stay in the log', async (t) => {
  const { post, service, lines } = await startRig(t)
  service.refusals.push(new Error('password=hunter2'))
  const answer = await post('/v1/calls', { tool: 'demo:add' })
  const text = await answer.clone().text()
  assert.deepEqual([answer.status, (await errorOf(answer)).code], [500, 'INTERNAL'])
  assert.ok(!text.includes('hunter2'))
  assert.equal(lines.filter(({ level }) => level === 'error').length, 1)
})

test('the cause of an error is not sent', async (t) => {
  const { post, service } = await startRig(t)
  service.refusals.push(new ToolError('STORE_UNAVAILABLE', 'No database.', { cause: new Error('at 10.0.0.7') }))
  const answer = await post('/v1/calls', { tool: 'demo:add' })
  assert.ok(!(await answer.text()).includes('10.0.0.7'))
})

test('a request without the key or with a wrong one is refused and learns nothing', async (t) => {
  const { server, key, service } = await startRig(t)
  const given = [
    undefined,
    '',
    'Bearer',
    `Bearer ${key}x`,
    `Bearer ${key.slice(0, -1)}`,
    `Basic ${key}`,
    key,
    'Bearer  ',
  ]
  for (const authorization of given) {
    const headers = { 'content-type': 'application/json', ...(authorization === undefined ? {} : { authorization }) }
    const answer = await fetch(`${server.url}/v1/calls`, { method: 'POST', headers, body: '{"tool":"demo:add"}' })
    assert.deepEqual([answer.status, answer.headers.get('www-authenticate')], [401, 'Bearer realm="gantry"'])
    assert.equal((await errorOf(answer)).code, 'UNAUTHENTICATED')
  }
  assert.equal(service.submitted.length, 0)
  const known = await fetch(`${server.url}/v1/workers`, { headers: { authorization: `bearer ${key}` } })
  assert.equal(known.status, 200)
})

test('health, readiness and, on loopback only, metrics need no key', async (t) => {
  const { server, service } = await startRig(t)
  for (const path of ['/healthz', '/readyz', '/metrics'])
    assert.equal((await fetch(server.url + path)).status, 200, path)
  service.state = { ready: false, problems: ['The database does not answer.'] }
  const unready = await fetch(`${server.url}/readyz`)
  assert.equal(unready.status, 503)
  assert.deepEqual((await errorOf(unready)).details, { problems: ['The database does not answer.'] })
})

test('a server on a public address requires the key for its metrics, and hides why it is not ready', async (t) => {
  const { server, key, service } = await startRig(t, { host: '0.0.0.0' })
  const { url } = server
  assert.equal(url, `http://127.0.0.1:${server.port}`)
  assert.equal((await fetch(`${url}/metrics`)).status, 401)
  const metrics = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${key}` } })
  assert.deepEqual([metrics.status, metrics.headers.get('content-type')], [200, 'text/plain; version=0.0.4'])
  service.state = { ready: false, problems: ['The database does not answer.'] }
  assert.deepEqual((await errorOf(await fetch(`${url}/readyz`))).details, {})
})

test('an unknown path is 404, another method 405 with the allowed ones', async (t) => {
  const { ask } = await startRig(t)
  for (const path of ['/', '/v1', '/v2/calls', '/v1/calls/', '/v1/calls/x/y', '/v1/openapi_json', '/v1/calls/%zz']) {
    const answer = await ask(path)
    assert.deepEqual([answer.status, (await errorOf(answer)).code], [404, 'NOT_FOUND'], path)
  }
  const wrong = await ask('/v1/calls/x/cancel')
  assert.deepEqual([wrong.status, wrong.headers.get('allow')], [405, 'POST, OPTIONS'])
  const options = await ask('/v1/calls', { method: 'OPTIONS' })
  assert.deepEqual([options.status, options.headers.get('allow')], [204, 'POST, GET, HEAD, OPTIONS'])
  assert.equal(options.headers.get('access-control-allow-origin'), null)
  assert.equal((await ask('/v1/calls/x/events', { method: 'HEAD' })).status, 405)
})

test('HEAD returns the headers of GET, without the body', async (t) => {
  const { ask } = await startRig(t)
  const [get, head] = [await ask('/v1/workers'), await ask('/v1/workers', { method: 'HEAD' })]
  assert.deepEqual([head.status, await head.text()], [200, ''])
  assert.equal(head.headers.get('content-length'), get.headers.get('content-length'))
})

test('calls of another tenant are not found', async (t) => {
  const { post, ask, otherKey } = await startRig(t)
  const { callId } = (await (await post('/v1/calls', { tool: 'demo:add', args: { a: 1, b: 2 } })).json()) as Result
  const headers = { authorization: `Bearer ${otherKey}` }
  for (const path of [`/v1/calls/${callId}`, `/v1/calls/${callId}/events`]) {
    assert.equal((await ask(path, { headers })).status, 404, path)
    const mine = await ask(path)
    assert.equal(mine.status, 200)
    await mine.text()
  }
  assert.equal((await ask(`/v1/calls/${callId}/cancel`, { method: 'POST', headers })).status, 404)
  assert.deepEqual(await (await ask('/v1/calls', { headers })).json(), { items: [] })
})

test('tools are found, described and listed with their digests', async (t) => {
  const { ask } = await startRig(t)
  const found = (await (await ask('/v1/tools?query=countdown&limit=1')).json()) as { items: { id: string }[] }
  assert.deepEqual(
    found.items.map(({ id }) => id),
    ['demo:countdown'],
  )
  const doc = (await (await ask('/v1/tools/demo%3Aadd%3A%5E1?level=schema')).json()) as {
    digest: string
    version: string
  }
  assert.equal(doc.version, '1.0.0')
  const first = (await (await ask('/v1/catalog?limit=2')).json()) as { hash: string; items: object[]; cursor: string }
  const rest = (await (await ask(`/v1/catalog?limit=9&cursor=${first.cursor}`)).json()) as {
    items: { digest: string }[]
  }
  assert.deepEqual([first.items.length, rest.items.length, first.hash.length > 20], [2, 3, true])
  const missing = await ask('/v1/tools/demo:nothing')
  assert.deepEqual([missing.status, (await errorOf(missing)).code], [404, 'TOOL_NOT_FOUND'])
  const level = await ask('/v1/tools/demo:add?level=everything')
  assert.deepEqual([level.status, (await errorOf(level)).code], [400, 'PAYLOAD_INVALID'])
})

test('a dead letter is shown, redriven once, and discarded', async (t) => {
  const { ask, service } = await startRig(t)
  const payload = { kind: 'call', tool: 'demo:add', args: { a: 1, b: 2 } }
  const deadLetter = { id: '7', source: 'postgres', reason: 'It died.', code: 'DELIVERY_EXHAUSTED', deliveries: 3 }
  service.deadLetterRows.push({ ...deadLetter, payload, createdAt: new Date().toISOString() })
  const one = (await (await ask('/v1/dead-letters/7')).json()) as { payload: unknown }
  assert.deepEqual(one.payload, payload)
  const redrive = async (): Promise<unknown> => (await ask('/v1/dead-letters/7/redrive', { method: 'POST' })).json()
  assert.deepEqual(await redrive(), await redrive())
  assert.equal(service.ran.length, 1)
  const discarded = await ask('/v1/dead-letters/7/discard', { method: 'POST' })
  assert.deepEqual([discarded.status, await discarded.text()], [204, ''])
  assert.equal((await ask('/v1/dead-letters/8/discard', { method: 'POST' })).status, 404)
})

test('every response has the security headers for browsers', async (t) => {
  const { ask, server } = await startRig(t)
  const answers = [await ask('/v1/workers'), await ask('/nothing'), await fetch(`${server.url}/v1/workers`)]
  for (const { headers } of answers) {
    assert.equal(headers.get('x-content-type-options'), 'nosniff')
    assert.match(headers.get('content-security-policy') ?? '', /default-src 'none'.*sandbox/)
    assert.equal(headers.get('cache-control'), 'no-store')
    assert.equal(headers.get('server'), null)
  }
  const { status, head } = partsOf(await exchange(server, ['nonsense\r\n\r\n']))
  assert.equal(status, 400)
  assert.match(head, /x-content-type-options: nosniff/)
})

test('an address in use is refused with what to do', async (t) => {
  const { server, service } = await startRig(t)
  const silent = { debug: () => undefined, info: () => undefined, error: () => undefined }
  const authenticate = async (): Promise<never> => Promise.reject(new Error('never'))
  await assert.rejects(
    createHttpServer({ service, authenticate, log: silent, port: server.port }),
    (error) => ToolError.is(error) && error.code === 'CONFIG_INVALID' && /--port/.test(error.message),
  )
})
