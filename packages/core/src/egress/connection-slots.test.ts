import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type TestContext, test } from 'node:test'
import { createConnectionSlots } from './connection-slots.ts'
import { fails, guard, here, serve, serveRaw } from './egress.fixture.ts'
import type { EgressRequest } from './egress.ts'
import { settingsOf } from './options.ts'

/** Answers at once, except for paths below `/hang`: the test itself sends or withholds those responses. */
async function hanging(t: TestContext) {
  const held: ServerResponse[] = []
  const server = await serve(
    t,
    ({ url }, response) => void (url?.startsWith('/hang') === true ? held.push(response) : response.end('ok')),
  )
  const hangs = (path = '/hang'): number => held.filter(({ req }) => req.url?.startsWith(path) === true).length
  return { ...server, held, hangs }
}

/** Polls until the condition holds or the test ends, so that a failing wait does not outlive its test. */
async function until(signal: AbortSignal, condition: () => boolean): Promise<void> {
  while (!condition() && !signal.aborted) await new Promise((resolve) => setImmediate(resolve))
}

const red = { timeout: 20_000 }

test('a tenant whose requests hang leaves connections to the origin for other tenants', red, async (t) => {
  const server = await hanging(t)
  const { get } = guard(t, { allow: here(server), maxConnectionsPerOrigin: 4 })
  const of = async (tenant: string): Promise<string> => (await get(server.origin, { tenant })).text()
  const stop = new AbortController()
  const all = Array.from({ length: 12 }, () => get(`${server.origin}/hang`, { tenant: 'a', signal: stop.signal }))
  const ends = Promise.allSettled(all)
  await until(t.signal, () => server.hangs() === 3)
  assert.deepEqual([await of('b'), await of('c'), await (await get(server.origin)).text()], ['ok', 'ok', 'ok'])
  assert.equal(server.hangs(), 3, 'three quarters')
  stop.abort()
  await ends
})

test('another tenant holds several connections while the requests of one tenant hang', red, async (t) => {
  const server = await hanging(t)
  const { get } = guard(t, { allow: here(server), maxConnectionsPerOrigin: 8 })
  const stop = new AbortController()
  const hang = (tenant: string, count: number) =>
    Array.from({ length: count }, () => get(`${server.origin}/hang/${tenant}`, { tenant, signal: stop.signal }))
  const ends = Promise.allSettled(hang('a', 20))
  await until(t.signal, () => server.hangs() === 6)
  const others = Promise.allSettled(hang('b', 2))
  await until(t.signal, () => server.hangs() === 8)
  assert.deepEqual([server.hangs('/hang/a'), server.hangs('/hang/b')], [6, 2])
  stop.abort()
  await Promise.all([ends, others])
})

test('a tenant whose requests hang at many origins leaves connections for other tenants', red, async (t) => {
  const servers = await Promise.all([1, 2, 3, 4].map(() => hanging(t)))
  const [quick] = servers
  assert.ok(quick)
  const { get } = guard(t, { allow: here(...servers), maxConnections: 4 })
  const of = async (tenant: string): Promise<string> => (await get(quick.origin, { tenant })).text()
  const stop = new AbortController()
  const hung = servers.flatMap(({ origin }) => [1, 2].map(() => `${origin}/hang`))
  const ends = Promise.allSettled(hung.map((url) => get(url, { tenant: 'a', signal: stop.signal })))
  const hangs = (): number => servers.reduce((sum, server) => sum + server.hangs(), 0)
  await until(t.signal, () => hangs() === 3)
  assert.deepEqual([await of('b'), await of('c')], ['ok', 'ok'])
  assert.equal(hangs(), 3, 'three quarters')
  stop.abort()
  await ends
})

test('raw connections of a tenant leave slots for raw connections of other tenants', red, async (t) => {
  const server = await serveRaw(t, () => {})
  const { egress } = guard(t, { allow: here(server), maxConnectionsPerOrigin: 4, connectMs: 600_000 })
  const open = (tenant: string, signal = t.signal) =>
    egress.connect({ owner: 'sandbox:1', tenant, host: '127.0.0.1', port: server.port, signal })
  const stop = new AbortController()
  const opening = [1, 2, 3, 4, 5].map(() => open('a', stop.signal))
  const [first] = await Promise.all(opening.slice(0, 3))
  const ends = Promise.allSettled(opening)
  const other = await open('b')
  await until(t.signal, () => server.connections() >= 4)
  assert.equal(server.connections(), 4, 'three of a and one of b')
  first?.destroy()
  await opening[3]
  other.destroy()
  stop.abort()
  await ends
})

test('the first released connection goes to the tenant that holds none', red, async (t) => {
  const server = await hanging(t)
  const { get } = guard(t, { allow: here(server), maxConnectionsPerOrigin: 2 })
  const order: string[] = []
  const ask = async (tenant: string, path = ''): Promise<void> => {
    const response = await get(`${server.origin}${path}`, { tenant })
    order.push(tenant)
    await response.text()
  }
  const running = [ask('c', '/hang')]
  await until(t.signal, () => server.hangs() === 1)
  running.push(ask('a', '/hang'))
  await until(t.signal, () => server.hangs() === 2)
  const waiting = [ask('a'), ask('a'), ask('a'), ask('b')]
  server.held[0]?.end()
  await waiting.at(-1)
  assert.deepEqual(order, ['c', 'b'])
  server.held[1]?.end()
  await Promise.all([...running, ...waiting])
  assert.equal(order.length, 6)
})

test('a request cancelled while it waits for a connection does not delay others', red, async (t) => {
  const server = await hanging(t)
  const { get } = guard(t, { allow: here(server), maxConnectionsPerOrigin: 1 })
  const running = get(`${server.origin}/hang`, { tenant: 'a' })
  await until(t.signal, () => server.hangs() === 1)
  const stop = new AbortController()
  const reason = new Error('gone')
  const cancelled = [1, 2].map(() => assert.rejects(get(server.origin, { tenant: 'a', signal: stop.signal }), reason))
  const next = get(`${server.origin}/next`, { tenant: 'a' })
  stop.abort(reason)
  await Promise.all(cancelled)
  server.held[0]?.end()
  await (await running).text()
  assert.equal(await (await next).text(), 'ok')
  assert.deepEqual(
    server.seen.map(({ url }) => url),
    ['/hang', '/next'],
  )
})

test(
  'an idle connection is closed for another origin while a request to its own origin is in flight',
  red,
  async (t) => {
    const held: ServerResponse[] = []
    const used = await serve(t, ({ url }, response) => {
      response.setHeader('keep-alive', 'timeout=30')
      if (url === '/hang') held.push(response)
      else response.end('ok')
    })
    const other = await serve(t)
    const { get } = guard(t, { allow: here(used, other), maxConnections: 2, connectMs: 2_000 })
    const running = get(`${used.origin}/hang`)
    await until(t.signal, () => held.length === 1)
    await (await get(used.origin)).text()
    assert.equal(used.connections(), 2)
    assert.equal(await (await get(other.origin)).text(), 'ok')
    held[0]?.end('held')
    assert.equal(await (await running).text(), 'held')
  },
)

test('a wait for a connection slot longer than connectMs fails with RATE_LIMITED and leaks no slot', async () => {
  const settings = settingsOf({ maxConnections: 1, maxConnectionsPerOrigin: 1, connectMs: 1 })
  const reasons: unknown[] = []
  const slots = createConnectionSlots(settings, (_owner, { host }, { reason }) => reasons.push([host, reason]))
  const to = (host: string) => ({
    owner: 'test',
    private: false,
    target: { scheme: 'http', host, port: 80, origin: `http://${host}` } as const,
  })
  const { signal } = new AbortController()
  const leave = await slots.take(to('used.test'), { signal })
  const limited = fails('RATE_LIMITED', { effect: 'none', retryable: true })
  await assert.rejects(async () => slots.take(to('other.test'), { signal }), limited)
  await assert.rejects(async () => slots.take(to('used.test'), { signal, originMs: 1 }), limited)
  assert.deepEqual(reasons, [
    ['other.test', 'too many connections'],
    ['used.test', 'too many connections'],
  ])
  leave()
  for (const host of ['other.test', 'used.test']) {
    const next = slots.take(to(host), { signal })
    assert.ok(typeof next === 'function', 'at once')
    next()
    next()
  }
})

/** All the ways a request can end. Each case holds the only connection slot. */
const endings: { readonly [name: string]: (port: Ending) => Promise<unknown> } = {
  'a body that was read': async ({ get }) => (await get('/large')).bytes(),
  'a small body that is never read': ({ get }) => get('/'),
  'a body that was cancelled': async ({ get }) => (await get('/large')).cancel(),
  'a reader that stops early': async ({ get }) => {
    for await (const _ of (await get('/large')).body) break
  },
  'a large body that is never read, when its signal aborts': async ({ get }) => {
    const stop = new AbortController()
    await get('/large', { signal: stop.signal })
    stop.abort()
  },
  'an abort before the headers': async ({ get, server, signal }) => {
    const stop = new AbortController()
    const asked = assert.rejects(get('/hang', { signal: stop.signal }))
    await until(signal, () => server.hangs() > 0)
    stop.abort()
    await asked
  },
  'a signal that is already aborted': ({ get }) => assert.rejects(get('/', { signal: AbortSignal.abort() })),
  'a connection that breaks before the headers': ({ get }) => assert.rejects(get('/break'), fails('BACKEND_FAILED')),
  'a connection that breaks in the body': async ({ get }) => {
    await assert.rejects((await get('/cut')).bytes(), fails('BACKEND_FAILED'))
  },
  'a body that cannot be decoded': async ({ get }) => {
    await assert.rejects((await get('/garbled')).bytes(), fails('BACKEND_FAILED'))
  },
  'a body that is too large': ({ get }) => assert.rejects(get('/large', { maxBytes: 9 }), fails('RESULT_TOO_LARGE')),
  'response headers after the timeout': ({ get }) =>
    assert.rejects(get('/hang', { headersMs: 20 }), fails('BACKEND_FAILED')),
  'followed redirects': async ({ get }) => (await get('/redirect', { redirects: 3 })).text(),
  'too many redirects': ({ get }) => assert.rejects(get('/redirect', { redirects: 1 }), fails('BACKEND_FAILED')),
  'a redirect that no rule allows': ({ get }) => assert.rejects(get('/away', { redirects: 3 }), fails('EGRESS_DENIED')),
  'a request body that fails': ({ get }) => {
    const body = (async function* () {
      yield new Uint8Array(1)
      throw new Error('broken')
    })()
    return assert.rejects(get('/', { method: 'POST', body }))
  },
  'a request that cannot be written': ({ get }) => assert.rejects(get('/', { headers: { expect: '100-continue' } })),
  'a closed raw connection': async ({ connect }) => {
    const socket = await connect()
    const closed = once(socket, 'close')
    socket.destroy()
    await closed
  },
}

interface Ending {
  readonly server: Awaited<ReturnType<typeof hanging>>
  readonly signal: AbortSignal
  get(path: string, more?: Partial<EgressRequest>): ReturnType<ReturnType<typeof guard>['get']>
  connect(): ReturnType<ReturnType<typeof guard>['egress']['connect']>
}

for (const [name, end] of Object.entries(endings)) {
  test(`the connection slot is released after ${name}`, red, async (t) => {
    const held: ServerResponse[] = []
    const made = await serve(t, (request, response) => answerOf(request, response, held))
    const server = { ...made, held, hangs: () => held.length }
    const { get, egress } = guard(t, { allow: here(server), maxConnectionsPerOrigin: 1, maxConnections: 1 })
    await end({
      server,
      signal: t.signal,
      get: (path, more) => get(`${server.origin}${path}`, { tenant: 'a', ...more }),
      connect: () =>
        egress.connect({ owner: 'test', tenant: 'a', host: '127.0.0.1', port: server.port, signal: t.signal }),
    })
    assert.equal(await (await get(`${server.origin}/last`, { tenant: 'a' })).text(), 'ok')
  })
}

test('the connection slot is released after a failed connect', red, async (t) => {
  const server = await serve(t)
  const gone = { origin: 'http://gone.test' }
  const lookup = async (): Promise<never> => {
    throw Object.assign(new Error('gone'), { code: 'ENOTFOUND' })
  }
  const { get, egress } = guard(t, { allow: here(server, gone), maxConnections: 1, lookup })
  await assert.rejects(get(gone.origin), fails('BACKEND_UNAVAILABLE'))
  const target = { owner: 'test', host: 'gone.test', port: 80, signal: t.signal }
  await assert.rejects(egress.connect(target), fails('BACKEND_UNAVAILABLE'))
  assert.equal(await (await get(server.origin)).text(), 'ok')
})

function answerOf({ url = '' }: IncomingMessage, response: ServerResponse, held: ServerResponse[]): void {
  if (url === '/hang') held.push(response)
  else if (url === '/break') response.destroy()
  else if (url === '/large') response.end(Buffer.alloc(1_000_000))
  else if (url === '/cut') response.writeHead(200, { 'content-length': 100 }).write('x', () => response.destroy())
  else if (url === '/garbled') response.writeHead(200, { 'content-encoding': 'gzip' }).end('not gzip')
  else if (url === '/redirect') response.writeHead(302, { location: '/redirect2' }).end()
  else if (url === '/redirect2') response.writeHead(302, { location: '/end' }).end()
  else if (url === '/away') response.writeHead(302, { location: 'http://elsewhere.test/' }).end()
  else response.end('ok')
}
