import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type TestContext, test } from 'node:test'
import { type Client, type ClientOptions, createClient, type Result, type StreamEvent, ToolError } from '@gantry/client'
import { type Rig, startRig } from '../../service/src/http/http.fixture.ts'
import { type Wire, wireTo } from './proxy.fixture.ts'

interface Bench extends Rig {
  readonly wire: Wire
  readonly client: Client
}

/** A client at the other end of a wire that can break. */
async function bench(t: TestContext, options: Partial<ClientOptions> = {}): Promise<Bench> {
  const rig = await startRig(t)
  const wire = await wireTo(t, rig.server.port)
  return { ...rig, wire, client: createClient({ url: wire.url, key: rig.key, retryDelayMs: 5, ...options }) }
}

const isError = (code: string) => (error: unknown) => ToolError.is(error) && error.code === code
const all = async (events: AsyncIterable<StreamEvent>): Promise<StreamEvent[]> => {
  const list: StreamEvent[] = []
  for await (const event of events) list.push(event)
  return list
}
const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5))

test('call returns a Result, whatever its status', async (t) => {
  const { client } = await bench(t)
  const added = await client.call('demo:add', { a: 5, b: 3 })
  assert.deepEqual([added.status, added.output], ['ok', { result: 8 }])
  const failed = await client.call('demo:fail', { message: 'no luck' })
  assert.deepEqual([failed.status, failed.error?.message], ['failed', 'no luck'])
})

test('a refusal of the service is thrown with its code and details', async (t) => {
  const { client, wire, otherKey, service } = await bench(t)
  await assert.rejects(client.call('demo:ad'), (error) => {
    assert.ok(ToolError.is(error) && error.code === 'TOOL_NOT_FOUND')
    return assert.deepEqual(error.details?.nearest, ['demo:add']) === undefined
  })
  await assert.rejects(createClient({ url: wire.url, key: 'wrong' }).call('demo:add'), isError('UNAUTHENTICATED'))
  await assert.rejects(createClient({ url: wire.url }).workers(), isError('UNAUTHENTICATED'))
  const { callId } = await client.submit('demo:add', { a: 1, b: 2 })
  await assert.rejects(createClient({ url: wire.url, key: otherKey }).get(callId), isError('NOT_FOUND'))
  await client.call('demo:add', { a: 1, b: 2 }, { idempotencyKey: 'k' })
  await assert.rejects(
    client.call('demo:add', { a: 1, b: 3 }, { idempotencyKey: 'k' }),
    isError('IDEMPOTENCY_CONFLICT'),
  )
  service.refusals.push(Object.assign(new ToolError('DENIED', 'Not you.'), { code: 'OF_TOMORROW' }))
  await assert.rejects(client.call('demo:add', { a: 1, b: 2 }), isError('INTERNAL'))
})

test('the client sends every option, and generates an idempotency key when none is given', async (t) => {
  const { client, service } = await bench(t)
  const options = { priority: 1, timeoutMs: 9_000, delayMs: 1, deadline: '2030-01-01T00:00:00Z', schemaDigest: 'd' }
  const callback = 'https://example.com/done'
  await client.submit('demo:add', { a: 1, b: 2 }, { ...options, callback, idempotencyKey: 'mine' })
  const call = { kind: 'call', tool: 'demo:add', args: { a: 1, b: 2 } }
  assert.deepEqual(service.submitted[0], { ...call, ...options, callback, idempotencyKey: 'mine' })
  const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
  await client.submit('demo:add', { a: 1, b: 2 }, { traceparent })
  await client.submit('demo:add', { a: 1, b: 2 }, { traceparent: 'no\r\ntrace: ä' })
  assert.deepEqual(
    service.submitted.slice(1).map((input) => input.traceparent),
    [traceparent, undefined],
  )
  const [, one, two] = service.submitted.map(({ idempotencyKey = '' }) => idempotencyKey)
  assert.match(one ?? '', /^[0-9a-f]{32}$/)
  assert.notEqual(one, two)
})

test('chain returns a ChainResult', async (t) => {
  const { client } = await bench(t)
  const steps = [{ tool: 'demo:add', args: { a: '{{input.a}}', b: 3 } }]
  const { status, output } = await client.chain(steps, { input: { a: 5 } })
  assert.deepEqual([status, output], ['ok', { result: 8 }])
  const first = await client.submitChain(steps, { input: { a: 5 }, idempotencyKey: 'chain' })
  await client.events(first.callId).next()
  const again = await client.submitChain(steps, { input: { a: 5 }, idempotencyKey: 'chain' })
  assert.deepEqual(again, { callId: first.callId, state: 'ok' })
})

test('a program returns a Result with its output and its calls', async (t) => {
  const { client, service } = await bench(t)
  const code = 'print("on the way"); return (await tools.demo.add({ a: 5, b: 3 })).result'
  const { status, output, program } = await client.code(code, { language: 'javascript', limits: { toolCalls: 2 } })
  assert.deepEqual([status, output, program?.printed, program?.calls.length], ['ok', 8, 'on the way\n', 1])
  assert.deepEqual(service.submitted[0]?.args, { code, language: 'javascript', limits: { toolCalls: 2 } })
  const first = await client.submitCode(code, { idempotencyKey: 'program' })
  await client.events(first.callId).next()
  assert.equal((await client.submitCode(code, { idempotencyKey: 'program' })).callId, first.callId)
})

test('a submission whose response is lost is sent again with the same key, and runs once', async (t) => {
  const { client, wire, service } = await bench(t)
  for (const bytes of [0, 20, 300]) wire.cutAfter(bytes)
  const result = await client.call('demo:add', { a: 5, b: 3 })
  assert.deepEqual(result.output, { result: 8 })
  assert.ok(service.submitted.length >= 4)
  assert.equal(new Set(service.submitted.map(({ idempotencyKey }) => idempotencyKey)).size, 1)
  assert.equal(service.ran.length, 1)
})

test('the client retries while the service is unreachable, then fails with SERVICE_UNAVAILABLE', async (t) => {
  const { client, wire } = await bench(t)
  await wire.down()
  const waiting = client.call('demo:add', { a: 5, b: 3 })
  await turn()
  await wire.up()
  assert.deepEqual((await waiting).output, { result: 8 })
  await wire.down()
  await assert.rejects(client.call('demo:add', { a: 1, b: 2 }), (error) => {
    assert.ok(ToolError.is(error) && error.code === 'SERVICE_UNAVAILABLE')
    assert.ok(error.cause !== undefined)
    return error.effect === 'possible' && error.retryable
  })
  const impatient = createClient({ url: wire.url, retries: 0 })
  await assert.rejects(
    impatient.workers(),
    (error) => isError('SERVICE_UNAVAILABLE')(error) && (error as ToolError).effect === 'none',
  )
})

test('waiting for a call survives a crash of the service', async (t) => {
  const { client, wire, service } = await bench(t)
  const waiting = client.call('demo:sleep', { ms: 300 }, { signal: new AbortController().signal })
  while (service.ran.length === 0) await turn()
  wire.cut()
  await turn()
  await wire.down()
  await turn()
  await wire.up()
  assert.deepEqual((await waiting).output, { slept: 300 })
  assert.equal(service.ran.length, 1)
})

test('waiting for a call continues at the next server when the first one closes', async (t) => {
  const first = await startRig(t)
  const second = await startRig(t, { service: first.service })
  const { fetch } = globalThis
  let at = first
  const client = createClient({
    url: 'http://service',
    retryDelayMs: 5,
    fetch: (input, init) =>
      fetch(String(input).replace('http://service', at.server.url), {
        ...init,
        headers: { ...init?.headers, authorization: `Bearer ${at.key}` },
      }),
  })
  const waiting = client.call('demo:sleep', { ms: 300 })
  while (first.service.ran.length === 0) await turn()
  const closed = first.server.close()
  at = second
  await closed
  assert.deepEqual((await waiting).output, { slept: 300 })
  assert.equal(first.service.ran.length, 1)
})

test('the client retries a busy response unless Retry-After is too long, and does not retry a refusal', async (t) => {
  const { client, service } = await bench(t, { retries: 2 })
  const busy = (): ToolError => new ToolError('STORE_UNAVAILABLE', 'Away.')
  service.refusals.push(busy())
  assert.equal((await client.call('demo:add', { a: 1, b: 2 })).status, 'ok')
  assert.equal(service.submitted.length, 2)
  const limited = new ToolError('RATE_LIMITED', 'Much too many.', { details: { retryAfterMs: 3_600_000 } })
  service.refusals.push(limited)
  await assert.rejects(client.call('demo:add', { a: 1, b: 2 }), (error) => {
    return isError('RATE_LIMITED')(error) && (error as ToolError).details?.retryAfterMs === 3_600_000
  })
  const before = service.submitted.length
  service.refusals.push(new ToolError('DENIED', 'No.'))
  await assert.rejects(client.call('demo:add', { a: 1, b: 2 }), isError('DENIED'))
  assert.equal(service.submitted.length, before + 1)
})

test('a stream yields every event once and in order, however often its connection breaks', async (t) => {
  const { client, wire, service } = await bench(t)
  const whole = await all(client.stream('demo:countdown', { from: 20, delayMs: 1 }))
  assert.deepEqual([whole.length, whole.at(-1)?.kind], [42, 'done'])
  for (const bytes of [700, 1_000, 1_500, 2_100]) wire.cutAfter(bytes)
  wire.cut()
  const before = wire.connections
  const broken = await all(client.stream('demo:countdown', { from: 20, delayMs: 1 }))
  assert.ok(wire.connections > before + 2)
  const shape = (events: readonly StreamEvent[]): unknown =>
    events.map((event) => ('result' in event ? [event.id, event.kind, event.result.output] : { ...event, callId: '' }))
  assert.deepEqual(shape(broken), shape(whole))
  assert.equal(service.ran.length, 2)
})

test('all events of an ended call are read before its last one, however often the connection breaks', async (t) => {
  const rig = await startRig(t)
  const wire = await wireTo(t, rig.server.port)
  const seen: (string | null)[] = []
  const spy: typeof fetch = (input, init) => {
    if (String(input).endsWith('/events')) seen.push(new Headers(init?.headers).get('last-event-id'))
    return fetch(input, init)
  }
  const client = createClient({ url: wire.url, key: rig.key, retryDelayMs: 5, fetch: spy })
  const { callId } = await client.call('demo:countdown', { from: 40, delayMs: 0 })
  const whole = await all(client.events(callId))
  assert.equal(whole.length, 82)
  wire.cut()
  for (const bytes of [900, 2_500, 2_500, 2_500]) wire.cutAfter(bytes)
  assert.deepEqual(await all(client.events(callId)), whole)
  const places = seen.filter((given) => given !== null).map(Number)
  assert.ok(places.length > 1)
  assert.deepEqual(
    places,
    places.toSorted((a, b) => a - b),
  )
})

test('an event received twice is yielded once', async (t) => {
  const { service } = await startRig(t)
  const deaf: typeof service.events = (callId, _after, identity, signal) => service.events(callId, 0, identity, signal)
  const rig = await startRig(t, { service: { ...service, events: deaf } })
  const client = createClient({ url: rig.server.url, key: rig.key })
  const { callId } = await client.call('demo:countdown', { from: 2, delayMs: 1 })
  const whole = await all(client.events(callId))
  assert.deepEqual(await all(client.events(callId, { after: 2 })), whole.slice(2))
})

test('a stream continues after the service crashes and restarts', async (t) => {
  const { client, wire } = await bench(t)
  const kinds: string[] = []
  let restarted: Promise<void> | undefined
  for await (const { kind, id } of client.stream('demo:countdown', { from: 10, delayMs: 20 })) {
    kinds.push(kind)
    if (id === 4) restarted = wire.down().then(turn).then(wire.up)
  }
  await restarted
  assert.deepEqual([kinds.length, kinds.at(-1)], [22, 'done'])
})

test('events of a call are read from any id, and a missing last event is built from the result', async (t) => {
  const { client, service } = await bench(t)
  const { callId } = await client.submit('demo:countdown', { from: 2, delayMs: 1 })
  const whole = await all(client.events(callId))
  assert.deepEqual(await all(client.events(callId, { after: 3 })), whole.slice(3))
  const forgetful = await startRig(t, { service: { ...service, events: async () => (async function* () {})() } })
  const other = createClient({ url: forgetful.server.url, key: forgetful.key })
  const { value: end } = await other.events(callId, { after: 3 }).next()
  assert.ok(end !== undefined)
  assert.deepEqual([end.id, end.kind, (end as { result: Result }).result.output], [4, 'done', { counted: 2 }])
  await assert.rejects(other.events('nothing').next(), isError('NOT_FOUND'))
})

test('leaving a stream cancels its call unless `cancelOnAbort` is false', async (t) => {
  const { client } = await bench(t)
  const leave = async (cancelOnAbort?: boolean): Promise<string> => {
    for await (const { callId } of client.stream('demo:countdown', { from: 1_000, delayMs: 50 }, { cancelOnAbort }))
      return callId
    return ''
  }
  const cancelled = await leave()
  while ((await client.get(cancelled)).state === 'running') await turn()
  assert.equal((await client.get(cancelled)).state, 'cancelled')
  const left = await leave(false)
  await turn()
  assert.equal((await client.get(left)).state, 'running')
  await client.cancel(left)
})

test('an abort ends the wait and cancels the call unless `cancelOnAbort` is false', async (t) => {
  const { client, service } = await bench(t)
  const abandon = async (cancelOnAbort?: boolean): Promise<string> => {
    const stop = new AbortController()
    const before = service.ran.length
    const waiting = client.call('demo:sleep', { ms: 60_000 }, { signal: stop.signal, cancelOnAbort })
    while (service.ran.length === before) await turn()
    stop.abort(new Error('enough'))
    await assert.rejects(
      waiting,
      (error) => isError('CANCELLED')(error) && (error as Error).cause === stop.signal.reason,
    )
    const { items } = await client.list({ state: 'running' })
    return items.at(-1)?.callId ?? ''
  }
  await abandon()
  while ((await client.list({ state: 'running' })).items.length > 0) await turn()
  const left = await abandon(false)
  await turn()
  assert.equal((await client.get(left)).state, 'running')
  await client.cancel(left)
})

test('an abort before or during the submission leaves no call running', async (t) => {
  const { client, service, wire } = await bench(t)
  await assert.rejects(client.call('demo:sleep', { ms: 60_000 }, { signal: AbortSignal.abort() }), isError('CANCELLED'))
  await assert.rejects(
    client.stream('demo:sleep', { ms: 60_000 }, { signal: AbortSignal.abort() }).next(),
    isError('CANCELLED'),
  )
  await assert.rejects(client.workers({ signal: AbortSignal.abort() }), isError('CANCELLED'))
  assert.equal(wire.connections, 0)
  const stop = new AbortController()
  const waiting = client.call('demo:sleep', { ms: 60_000 }, { signal: stop.signal })
  stop.abort()
  await assert.rejects(waiting, isError('CANCELLED'))
  while (service.ran.length === 0 || (await client.list({ state: 'running' })).items.length > 0) await turn()
})

test('an abort ends the delay between retries, and no retry follows', async (t) => {
  const { client, wire } = await bench(t, { retryDelayMs: 60_000 })
  await wire.down()
  const stop = new AbortController()
  const waiting = client.call('demo:add', { a: 1, b: 2 }, { signal: stop.signal })
  setTimeout(() => stop.abort(), 50)
  await assert.rejects(waiting, isError('CANCELLED'))
})

test('tools, catalog, workers, runtimes, circuits, dead letters and artifacts are read', async (t) => {
  const { client, service } = await bench(t)
  const tools = await client.tools({ limit: 2 })
  assert.equal(tools.items.length, 2)
  const next = await client.tools({ limit: 10, cursor: tools.cursor })
  assert.equal(next.items.length, 3)
  assert.equal((await client.search('countdown', { namespace: 'demo' })).items[0]?.id, 'demo:countdown')
  assert.equal(typeof (await client.search('')).items[0]?.score, 'number')
  assert.equal((await client.tools({ versions: 'all' })).items.length, 5)
  const doc = await client.describe('demo:add', { level: 'schema' })
  const entry = (await client.catalog()).items.find(({ id }) => id === 'demo:add')
  assert.equal(doc.digest, entry?.digest)
  assert.equal((await client.workers())[0]?.worker, 'w1')
  assert.equal((await client.runtimes()).length, 2)
  const [circuit] = await client.circuits()
  assert.deepEqual([circuit?.state, circuit?.tenants[0]?.tenant], ['open', 'shop'])
  assert.deepEqual(await client.resetCircuit(circuit?.key ?? ''), { reset: true })
  await assert.rejects(client.resetCircuit('none @ local', { tenant: 'shop' }), isError('NOT_FOUND'))
  const payload = { kind: 'call', tool: 'demo:add', args: { a: 1, b: 2 } }
  const letter = { id: '7', source: 's', reason: 'r', code: 'DELIVERY_EXHAUSTED', deliveries: 3 }
  service.deadLetterRows.push({ ...letter, payload, createdAt: new Date().toISOString() })
  assert.equal((await client.deadLetters.list()).items.length, 1)
  assert.deepEqual((await client.deadLetters.get('7')).payload, payload)
  const { callId } = await client.deadLetters.redrive('7')
  assert.equal((await client.get(callId)).tool, 'demo:add')
  await client.deadLetters.discard('7')
  const ref = { id: 'a1', name: 'a', mimeType: 'text/plain', bytes: 10, digest: 'd' }
  service.artifacts.set('a1', { ref, tenant: 'acme', bytes: new TextEncoder().encode('0123456789') })
  assert.equal(await (await client.artifact('a1')).text(), '0123456789')
  assert.equal(await (await client.artifact('a1', { start: 2, end: 5 })).text(), '234')
  await assert.rejects(client.artifact('a2'), isError('NOT_FOUND'))
})

test('an id with path segments is NOT_FOUND', async (t) => {
  const { client, wire } = await bench(t)
  for (const id of ['', '.', '..']) {
    await assert.rejects(client.get(id), isError('NOT_FOUND'))
    await assert.rejects(client.cancel(id), isError('NOT_FOUND'))
  }
  assert.equal(wire.connections, 0)
  await assert.rejects(client.get('../workers'), isError('NOT_FOUND'))
})

test('a server that is not a Gantry service is refused', async (t) => {
  const server = createServer((request, response) => {
    if (request.url === '/v1/workers') response.writeHead(200, { 'content-type': 'text/html' }).end('<html>')
    else if (request.url === '/v1/circuits') response.writeHead(302, { location: 'http://evil.example/' }).end()
    else response.writeHead(404).end('nothing here')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close().closeAllConnections())
  const { port } = server.address() as { port: number }
  const client = createClient({ url: `http://127.0.0.1:${port}/`, retries: 1, retryDelayMs: 1 })
  await assert.rejects(client.workers(), isError('SERVICE_UNAVAILABLE'))
  await assert.rejects(client.circuits(), isError('SERVICE_UNAVAILABLE'))
  await assert.rejects(
    client.runtimes(),
    (error) => isError('SERVICE_UNAVAILABLE')(error) && /404/.test((error as Error).message),
  )
})

test('invalid options are refused with their paths', () => {
  const wrong: readonly (readonly [object, string])[] = [
    [{ url: 'nonsense' }, '/url'],
    [{ url: 'ftp://x' }, '/url'],
    [{ url: 'http://user:pass@x' }, '/url'],
    [{ url: 'http://x', key: 'a b' }, '/key'],
    [{ url: 'http://x', key: 'a\r\nb' }, '/key'],
    [{ url: 'http://x', retries: -1 }, '/retries'],
    [{ url: 'http://x', retryDelayMs: 0 }, '/retryDelayMs'],
    [{ url: 'http://x', token: 'x' }, '/token'],
    [{ url: 'http://x', fetch: 1 }, '/fetch'],
  ]
  for (const [options, path] of wrong) {
    assert.throws(
      () => createClient(options as ClientOptions),
      (error) => {
        return isError('CONFIG_INVALID')(error) && (error as Error).message.includes(path)
      },
    )
  }
})
