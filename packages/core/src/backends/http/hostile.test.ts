import assert from 'node:assert/strict'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { fakeContext, fakeHost } from '@gantry/conformance/internal/backend'
import type { Json } from '@gantry/contract'
import { createEgressGuard } from '../../egress/guard.ts'
import type { BackendContext } from '../backend.ts'
import { http } from '../http.ts'
import { failure, listen, openWorld, outputOf, sendJson, toolWith } from './server.fixture.ts'

/** A server that writes bytes of the test's choice once a request came, and a call to it. */
async function rawServer(t: TestContext, answer: (socket: Socket) => void): Promise<() => Promise<Json>> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => answer(socket))
    t.after(() => socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const egress = createEgressGuard()
  t.after(async () => {
    await egress.close()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const backend = http({ name: 'api', baseUrl: `http://127.0.0.1:${port}`, private: true })
  backend.attach?.(fakeHost(egress))
  const tool = toolWith({ kind: 'http', path: '/' })
  const call = { id: 'test:tool:1.0.0', tool, args: {}, binding: tool.backends[0] ?? {} }
  return async () => outputOf(backend.call(call, fakeContext()))
}

const head = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'

test('a response over the size limit fails with RESULT_TOO_LARGE, with or without Content-Length', async (t) => {
  let lengthy = false
  const world = await openWorld(
    (_request, response) => {
      response.setHeader('content-type', 'text/plain')
      if (lengthy) response.setHeader('content-length', 1_000_000)
      response.on('error', () => undefined).end('x'.repeat(1_000_000))
    },
    { http: { maxResponseBytes: 1_000 } },
  )
  t.after(world.close)
  for (lengthy of [false, true]) assert.equal((await failure(world.call({ path: '/' }))).code, 'RESULT_TOO_LARGE')
  const generous = http({ name: 'api', baseUrl: world.origin, private: true })
  generous.attach?.(fakeHost(world.egress))
  const tool = toolWith({ kind: 'http', path: '/' })
  const call = { id: 'test:tool:1.0.0', tool, args: {}, binding: tool.backends[0] ?? {} }
  assert.equal(String(await outputOf(generous.call(call, fakeContext()))).length, 1_000_000)
})

test('a decompression bomb fails with RESULT_TOO_LARGE', async (t) => {
  const bomb = gzipSync(Buffer.alloc(50_000_000, '1'))
  const world = await openWorld((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/plain', 'content-encoding': 'gzip' })
    response.on('error', () => undefined).end(bomb)
  })
  t.after(world.close)
  assert.ok(bomb.length < 100_000)
  assert.equal((await failure(world.call({ path: '/' }))).code, 'RESULT_TOO_LARGE')
})

test('an endless event stream fails with RESULT_TOO_LARGE at the size limit', async (t) => {
  const world = await openWorld(
    (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const more = (): void => {
        while (!response.destroyed && response.write('data: 1\n\n'));
        response.once('drain', more)
      }
      more()
    },
    { http: { maxResponseBytes: 10_000 } },
  )
  t.after(world.close)
  assert.equal((await failure(world.call({ path: '/' }))).code, 'RESULT_TOO_LARGE')
  assert.ok(world.chunks.length > 100)
})

test('a response with a wrong length or encoding, a truncated response and invalid HTTP fail with BACKEND_FAILED', async (t) => {
  const answers: { readonly [what: string]: string } = {
    'shorter than Content-Length': `${head}Content-Length: 50\r\n\r\n{"a":1}`,
    'ends within a chunk': `${head}Transfer-Encoding: chunked\r\n\r\nff\r\n{"a"`,
    'text labelled as gzip': `${head}Content-Encoding: gzip\r\nContent-Length: 7\r\n\r\n{"a":1}`,
    'unknown encoding': `${head}Content-Encoding: rot13\r\nContent-Length: 7\r\n\r\n{"a":1}`,
    'two lengths': `${head}Content-Length: 7\r\nContent-Length: 3\r\n\r\n{"a":1}`,
    'no HTTP': 'SSH-2.0-OpenSSH_9.9\r\n',
    nothing: '',
  }
  for (const [what, answer] of Object.entries(answers)) {
    const call = await rawServer(t, (socket) => socket.end(answer))
    assert.equal((await failure(call())).code, 'BACKEND_FAILED', what)
  }
  const honest = await rawServer(t, (socket) => socket.end(`${head}Content-Length: 7\r\n\r\n{"a":1}`))
  assert.deepEqual(await honest(), { a: 1 })
})

test('a response sent one byte at a time is read like one sent at once', async (t) => {
  const text = `${head}Content-Length: 7\r\n\r\n{"a":1}`
  const drip = async (socket: Socket): Promise<void> => {
    socket.setNoDelay(true)
    for (const letter of text)
      await new Promise<void>((resolve) => void socket.write(letter, () => setImmediate(resolve)))
  }
  const call = await rawServer(t, (socket) => void drip(socket))
  assert.deepEqual(await call(), { a: 1 })
})

test('a cancelled call closes its connection before the response, within the response and within a stream', async (t) => {
  for (const body of [undefined, 'half of it', 'data: 1\n\n']) {
    const arrived = Promise.withResolvers<void>()
    const gone = Promise.withResolvers<void>()
    const world = await openWorld((_request, response, incoming) => {
      incoming.socket.on('close', () => gone.resolve())
      const type = body?.startsWith('data') ? 'text/event-stream' : 'text/plain'
      if (body !== undefined) response.writeHead(200, { 'content-type': type }).write(body)
      arrived.resolve()
    })
    t.after(world.close)
    const controller = new AbortController()
    const calling = failure(world.call({ path: '/' }, {}, { signal: controller.signal }))
    await arrived.promise
    const reason = new Error('enough')
    controller.abort(reason)
    assert.equal(await calling, reason)
    await gone.promise
  }
})

test('the connection is closed when the reader of a stream stops early', async (t) => {
  const gone = Promise.withResolvers<void>()
  const world = await openWorld((_request, response, incoming) => {
    incoming.socket.on('close', () => gone.resolve())
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: 1\n\n')
  })
  t.after(world.close)
  const tool = toolWith({ kind: 'http', path: '/' })
  const call = { id: 'test:tool:1.0.0', tool, args: {}, binding: tool.backends[0] ?? {} }
  const stream = (await world.backend.call(call, fakeContext())) as AsyncGenerator<Json, Json>
  assert.deepEqual((await stream.next()).value, { event: 'message', data: 1 })
  await stream.return(null)
  await gone.promise
})

test('a redirect to another private origin is refused, and one within the origin is followed', async (t) => {
  const reached: string[] = []
  const inner = await listen((request, response) => {
    reached.push(request.url ?? '')
    sendJson(response, 'inside')
  })
  t.after(inner.close)
  const world = await openWorld(({ target }, response) => {
    const to: { readonly [path: string]: string } = {
      '/out': `${inner.origin}/secret`,
      '/own': '/end',
      '/loop': '/loop',
    }
    if (to[target] === undefined) sendJson(response, 'end')
    else response.writeHead(302, { location: to[target] }).end()
  })
  t.after(world.close)
  assert.equal((await failure(world.call({ path: '/out' }))).code, 'EGRESS_DENIED')
  assert.deepEqual(reached, [])
  assert.equal(await world.call({ path: '/own' }), 'end')
  assert.equal((await failure(world.call({ path: '/loop' }))).code, 'BACKEND_FAILED')
  assert.equal(world.seen.filter(({ target }) => target === '/loop').length, 4)
  world.egress.setRules([
    { origin: world.origin, private: true },
    { origin: inner.origin, private: true },
  ])
  assert.equal(await world.call({ path: '/out' }), 'inside')
  assert.deepEqual(reached, ['/secret'])
})

test('credentials are not sent with a redirect to another allowed origin', async (t) => {
  const headers: object[] = []
  const other = await listen((request, response) => {
    headers.push({ ...request.headers })
    sendJson(response, 'other')
  })
  t.after(other.close)
  const world = await openWorld(({ target }, response) => {
    response.writeHead(302, { location: `${other.origin}${target.split('?')[0]}` }).end()
  })
  t.after(world.close)
  world.egress.setRules([
    { origin: world.origin, private: true },
    { origin: other.origin, private: true },
  ])
  const secret: BackendContext['secret'] = async () => 'canary'
  const auth = [
    { type: 'bearer', token: 'secret:a' },
    { type: 'header', name: 'X-Api-Key', value: 'secret:a' },
    { type: 'cookie', name: 's', value: 'secret:a' },
    { type: 'query', name: 'k', value: 'secret:a' },
  ] as const
  assert.equal(await world.call({ path: '/', auth }, {}, { secret }), 'other')
  assert.match(JSON.stringify(world.seen), /canary.*canary.*canary.*canary/)
  assert.doesNotMatch(JSON.stringify(headers), /canary/)
})

test('an unreachable server fails with BACKEND_UNAVAILABLE and effect none', async (t) => {
  const world = await openWorld(() => undefined)
  await world.close()
  const egress = createEgressGuard()
  t.after(() => egress.close())
  world.backend.attach?.(fakeHost(egress))
  const error = await failure(world.call({ method: 'POST', path: '/' }))
  assert.deepEqual([error.code, error.effect], ['BACKEND_UNAVAILABLE', 'none'])
})

test('a connection lost after a POST was sent fails with effect possible', async (t) => {
  const world = await openWorld((_request, _response, incoming) => incoming.socket.destroy())
  t.after(world.close)
  const error = await failure(world.call({ method: 'POST', path: '/' }, { a: 1 }))
  assert.deepEqual([error.code, error.effect], ['BACKEND_FAILED', 'possible'])
})
