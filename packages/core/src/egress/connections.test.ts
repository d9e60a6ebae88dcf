import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { fails, guard, here, serve, serveRaw } from './egress.fixture.ts'

test('an open connection to a private address is not reused for a request that must not reach private addresses', async (t) => {
  const server = await serve(t)
  const { get, egress } = guard(t, {
    allow: [{ origin: server.origin, methods: ['POST'], private: true }, server.origin],
  })
  await (await get(server.origin, { method: 'POST', body: '' })).text()
  await assert.rejects(get(server.origin), fails('EGRESS_DENIED'))
  egress.setRules([{ origin: server.origin, private: true }])
  await (await get(server.origin)).text()
  const before = server.connections()
  egress.setRules([server.origin])
  await assert.rejects(get(server.origin), fails('EGRESS_DENIED'))
  await assert.rejects(get(server.origin, { method: 'POST', body: '' }), fails('EGRESS_DENIED'))
  assert.equal(server.connections(), before)
  const free = guard(t)
  await (await free.get(server.origin, { own: here(server) })).text()
  await assert.rejects(free.get(server.origin, { own: [server.origin] }), fails('EGRESS_DENIED'))
})

test('new rules let running requests finish, close idle connections and refuse waiting requests', async (t) => {
  const held: (() => void)[] = []
  const server = await serve(t, (request, response) => {
    if (request.url === '/hold') held.push(() => response.end('held'))
    else response.end('ok')
  })
  const { get, egress } = guard(t, { allow: here(server), maxConnectionsPerOrigin: 1 })
  const running = get(`${server.origin}/hold`)
  const waiting = assert.rejects(get(`${server.origin}/waits`), fails('EGRESS_DENIED', { effect: 'none' }))
  while (held.length === 0) await new Promise((resolve) => setImmediate(resolve))
  egress.setRules([])
  await assert.rejects(get(server.origin), fails('EGRESS_DENIED'))
  held[0]?.()
  assert.equal(await (await running).text(), 'held')
  await waiting
  assert.deepEqual(
    server.seen.map(({ url }) => url),
    ['/hold'],
  )
  egress.setRules(here(server))
  assert.equal(await (await get(server.origin)).text(), 'ok')
  assert.throws(() => egress.setRules(['nonsense']), fails('CONFIG_INVALID'))
  assert.equal(await (await get(server.origin)).text(), 'ok')
})

test('a request whose DNS lookup is pending when the rules change is checked against the new rules', async (t) => {
  const server = await serve(t)
  const found = Promise.withResolvers<readonly { address: string; family: number }[]>()
  const asked = Promise.withResolvers<void>()
  const lookup = () => {
    asked.resolve()
    return found.promise
  }
  const origin = `http://slow.test:${server.port}`
  const { get, egress } = guard(t, { allow: [{ origin, private: true }], lookup })
  const waiting = get(origin)
  const refused = assert.rejects(waiting, fails('EGRESS_DENIED'))
  await asked.promise
  egress.setRules([origin])
  found.resolve([{ address: '127.0.0.1', family: 4 }])
  await refused
  assert.equal(server.connections(), 0)
})

test('raw connections pass the same checks, and end when new rules forbid them', async (t) => {
  const server = await serveRaw(t, (socket) => void socket.write('hello'))
  const { egress, events } = guard(t, { allow: here(server) })
  const target = { owner: 'grpc:x', host: '127.0.0.1', port: server.port, signal: t.signal }
  const socket = await egress.connect(target)
  const [piece] = await once(socket, 'data')
  assert.equal(String(piece), 'hello')
  assert.deepEqual(events, [
    {
      owner: 'grpc:x',
      scheme: 'http',
      host: '127.0.0.1',
      port: server.port,
      outcome: 'connected',
      address: '127.0.0.1',
    },
  ])
  await assert.rejects(egress.connect({ ...target, port: server.port - 1 }), fails('EGRESS_DENIED'))
  const closed = once(socket, 'error')
  egress.setRules([{ origin: server.origin, private: true, methods: ['POST'] }])
  assert.ok(fails('EGRESS_DENIED')((await closed)[0]))
  await assert.rejects(egress.connect(target), fails('EGRESS_DENIED'))
})

test('when the first address does not answer, the guard dials the next checked address', async (t) => {
  const server = await serve(t)
  const lookup = async () => [
    { address: '127.0.0.3', family: 4 },
    { address: '127.0.0.1', family: 4 },
  ]
  const origin = `http://two.test:${server.port}`
  const { get, events } = guard(t, { allow: here({ origin }), lookup })
  assert.equal(await (await get(origin)).text(), 'ok')
  assert.deepEqual(
    events.map(({ outcome, address, reason }) => [outcome, address, reason]),
    [
      ['failed', '127.0.0.3', 'ECONNREFUSED'],
      ['connected', '127.0.0.1', undefined],
    ],
  )
})

test('an abort ends every wait with the abort reason', async (t) => {
  const unresponsive = await serveRaw(t, () => {})
  const slow = { origin: 'http://slow.test' }
  const { get, egress } = guard(t, {
    allow: here(unresponsive, slow),
    lookup: () => new Promise(() => {}),
    connectMs: 600_000,
  })
  const reason = new ToolError('CANCELLED', 'the caller left')
  const during = async (begin: (signal: AbortSignal) => Promise<unknown>): Promise<void> => {
    const stop = new AbortController()
    setTimeout(() => stop.abort(reason), 30)
    await assert.rejects(begin(stop.signal), (error) => error === reason)
    await assert.rejects(begin(AbortSignal.abort(reason)), (error) => error === reason)
  }
  await during((signal) => get(unresponsive.origin, { signal, method: 'POST', body: 'x' }))
  await during((signal) => get(slow.origin, { signal }))
  await during((signal) => egress.connect({ owner: 'test', host: 'slow.test', port: 80, signal }))
  await during((signal) => egress.fetch({ owner: 'test' })(unresponsive.origin, { signal }))
})

test('requests to one origin beyond its rate fail with RATE_LIMITED and a retryAfterMs', async (t) => {
  const [server, other] = [await serve(t), await serve(t)]
  const { get } = guard(t, { allow: here(server, other), rate: { perSecond: 0.001, burst: 2 } })
  for (let count = 0; count < 2; count++) await (await get(server.origin)).text()
  await assert.rejects(get(server.origin), (error) => {
    assert.ok(ToolError.is(error) && error.code === 'RATE_LIMITED' && error.effect === 'none')
    assert.ok(Number(error.details?.retryAfterMs) > 900_000)
    return true
  })
  assert.equal(await (await get(other.origin)).text(), 'ok')
  assert.equal(server.seen.length, 2)
})

test('idle connections are closed for other origins, and requests of one owner queue at the origin limit', async (t) => {
  const servers = [await serve(t), await serve(t), await serve(t)]
  const { get } = guard(t, { allow: here(...servers), maxConnections: 2 })
  for (const { origin } of [...servers, ...servers]) assert.equal(await (await get(origin)).text(), 'ok')
  const [first = ''] = servers.map(({ origin }) => origin)
  const few = guard(t, { allow: here(...servers), maxConnectionsPerOrigin: 1 })
  const all = await Promise.all([1, 2, 3].map(async () => (await few.get(first)).text()))
  assert.deepEqual([all, few.events.length], [['ok', 'ok', 'ok'], 1])
})

test('connections in use count against the total limit and the limit per origin', async (t) => {
  const [used, other] = [await serveRaw(t, () => {}), await serve(t)]
  const targets = [used, other].map(({ port }) => ({ owner: 'test', host: '127.0.0.1', port, signal: t.signal }))
  const [toUsed, toOther] = targets
  assert.ok(toUsed && toOther)
  const inAll = guard(t, { allow: here(used, other), maxConnections: 1, connectMs: 1_000 })
  const each = guard(t, { allow: here(used, other), maxConnectionsPerOrigin: 1, connectMs: 1_000 })
  const held = await inAll.egress.connect(toUsed)
  await each.egress.connect(toUsed)
  await (await each.get(other.origin)).text()
  const limited = fails('RATE_LIMITED', { effect: 'none', retryable: true })
  await Promise.all([
    assert.rejects(inAll.egress.connect(toOther), limited),
    assert.rejects(inAll.get(other.origin), limited),
    assert.rejects(each.egress.connect(toUsed), limited),
  ])
  const closed = once(held, 'close')
  held.destroy()
  await closed
  assert.equal(await (await inAll.get(other.origin)).text(), 'ok')
})

test('a connection is reused by its owner only', async (t) => {
  const server = await serve(t)
  const { get } = guard(t, { allow: here(server), maxConnectionsPerOrigin: 2 })
  await (await get(server.origin, { owner: 'a' })).text()
  await settled()
  await (await get(server.origin, { owner: 'a' })).text()
  assert.equal(server.connections(), 1)
  await settled()
  await (await get(server.origin, { owner: 'b' })).text()
  assert.equal(server.connections(), 2)
})

test('a body that fails before it is read, or is never read, does not leak its connection', async (t) => {
  const left: Promise<unknown>[] = []
  const server = await serveRaw(t, (socket) => {
    const breaks = left.push(once(socket, 'close')) === 1
    const head = 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx'
    socket.once('data', () => (breaks ? socket.end(head) : socket.write(head)))
  })
  const { get, egress } = guard(t, { allow: here(server) })
  const unread = await get(server.origin)
  await left[0]
  await settled()
  await assert.rejects(unread.text(), fails('BACKEND_FAILED'))
  const cancelled = await get(server.origin)
  cancelled.cancel()
  await left[1]
  await assert.rejects(cancelled.text(), fails('BACKEND_FAILED'))
  const fetched = await egress.fetch({ owner: 'test' })(server.origin)
  await fetched.body?.cancel()
  await left[2]
  assert.equal(server.connections(), 3)
})

test('close ends running requests and refuses waiting and new ones', async (t) => {
  const asked = Promise.withResolvers<void>()
  const unresponsive = await serveRaw(t, (socket) => void socket.once('data', () => asked.resolve()))
  const other = await serveRaw(t, () => {})
  const { get, egress } = guard(t, { allow: here(unresponsive, other), maxConnectionsPerOrigin: 1 })
  const post = { method: 'POST', body: 'x' }
  const target = { owner: 'test', host: '127.0.0.1', port: other.port, signal: t.signal }
  const socket = await egress.connect(target)
  const running = assert.rejects(get(unresponsive.origin, post), fails('BACKEND_FAILED', { effect: 'possible' }))
  await asked.promise
  const waiting = assert.rejects(get(unresponsive.origin, post), fails('BACKEND_UNAVAILABLE', { effect: 'none' }))
  await settled()
  await egress.close()
  await running
  await waiting
  assert.equal(socket.destroyed, true)
  await assert.rejects(get(unresponsive.origin), fails('BACKEND_UNAVAILABLE', { effect: 'none', retryable: false }))
  await assert.rejects(egress.connect(target), fails('BACKEND_UNAVAILABLE'))
})

/** Waits until connections return to their pool. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
}
