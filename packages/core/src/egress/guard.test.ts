import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { EnvHttpProxyAgent, request as undiciRequest } from 'undici'
import { fails, guard, here, serve } from './egress.fixture.ts'
import { createEgressGuard } from './guard.ts'

const unavailable = fails('BACKEND_UNAVAILABLE', { effect: 'none', retryable: true })

test('the server receives the method, URL, headers and body of a request unchanged', async (t) => {
  const server = await serve(t, (_, response) => response.writeHead(201, { 'x-a': 'b' }).end('made'))
  const { get } = guard(t, { allow: here(server) })
  const headers = { 'X-Tool': 'yes', 'content-type': 'text/plain' }
  const response = await get(`${server.origin}/a%20b?c=d#e`, { method: 'post', headers, body: 'text' })
  assert.deepEqual([response.status, response.headers.get('x-a'), await response.text()], [201, 'b', 'made'])
  const [seen] = server.seen
  assert.deepEqual([seen?.method, seen?.url, seen?.body], ['POST', '/a%20b?c=d', 'text'])
  assert.deepEqual([seen?.headers['x-tool'], seen?.headers['content-length']], ['yes', '4'])
  const stream = Readable.from([Buffer.from('one '), Buffer.from('two')])
  await (await get(server.origin, { method: 'PUT', body: stream })).bytes()
  assert.equal(server.seen[1]?.body, 'one two')
  await (await get(server.origin, { method: 'PUT', body: new Uint8Array([65, 66]) })).bytes()
  assert.equal(server.seen[2]?.body, 'AB')
})

test('egress.fetch accepts the arguments of fetch and returns a Response', async (t) => {
  const server = await serve(t, (request, response) => {
    if (request.url === '/none') response.writeHead(204).end()
    else response.writeHead(200, { 'set-cookie': ['a=1', 'b=2'] }).end('{"a":1}')
  })
  const { egress } = guard(t, { allow: here(server) })
  const fetch = egress.fetch({ owner: 'test' })
  const form = new FormData()
  form.set('field', 'value')
  const bodies = [
    'text',
    new URLSearchParams({ a: 'b' }),
    new Blob(['blob']),
    form,
    Readable.toWeb(Readable.from([Buffer.from('stream')])) as ReadableStream,
  ]
  for (const body of bodies) {
    const response = await fetch(new URL(server.origin), { method: 'POST', body })
    assert.deepEqual(await response.json(), { a: 1 })
    assert.deepEqual(response.headers.getSetCookie(), ['a=1', 'b=2'])
  }
  assert.deepEqual(
    server.seen.map(({ body }) => body.slice(0, 6)),
    ['text', 'a=b', 'blob', '------', 'stream'],
  )
  assert.deepEqual(
    server.seen.map(({ headers }) => headers['transfer-encoding']),
    [undefined, undefined, undefined, undefined, 'chunked'],
  )
  const asked = new Request(server.origin, { method: 'PUT', body: 'as a request', headers: { 'x-a': 'b' } })
  await (await fetch(asked)).body?.cancel()
  assert.deepEqual([server.seen[5]?.body, server.seen[5]?.headers['x-a']], ['as a request', 'b'])
  assert.equal((await fetch(`${server.origin}/none`)).body, null)
})

test('without rules only the origins of the owner are reachable; with an empty list of rules none is', async (t) => {
  const server = await serve(t)
  const free = guard(t)
  const own = here(server)
  assert.equal(await (await free.get(server.origin, { own })).text(), 'ok')
  await assert.rejects(free.get(server.origin, { own: [server.origin] }), fails('EGRESS_DENIED'))
  await assert.rejects(free.get(server.origin), fails('EGRESS_DENIED'))
  const none = guard(t, { allow: [] })
  await assert.rejects(none.get(server.origin, { own }), fails('EGRESS_DENIED'))
  assert.equal(server.seen.length, 1)
})

test('a tool that lists its origins reaches only those', async (t) => {
  const [named, other] = [await serve(t), await serve(t)]
  const { get } = guard(t, { allow: here(named, other) })
  assert.equal(await (await get(named.origin, { only: [named.origin] })).text(), 'ok')
  await assert.rejects(get(other.origin, { only: [named.origin] }), fails('EGRESS_DENIED'))
  await assert.rejects(get(other.origin, { only: [] }), fails('EGRESS_DENIED'))
  await assert.rejects(get(other.origin, { only: ['not an origin'] }), fails('CONFIG_INVALID'))
  assert.equal(other.connections(), 0)
})

test('a refusal names the rule to add to egress.allow', async (t) => {
  const { get } = guard(t, { allow: ['https://example.com'], lookup: async () => [{ address: '10.0.0.1', family: 4 }] })
  const missing = 'No rule allows a GET request to http://api.test:8080. Add "http://api.test:8080" to egress.allow.'
  await assert.rejects(get('http://api.test:8080/path?key=1'), fails('EGRESS_DENIED', { message: missing }))
  const inside =
    'example.com leads to a private or reserved address. If that is intended, add { "origin": "https://example.com", "private": true } to egress.allow.'
  await assert.rejects(get('https://example.com/path'), fails('EGRESS_DENIED', { message: inside }))
})

test('a closed port, an unknown name and a slow lookup are reported with effect none', async (t) => {
  const server = await serve(t)
  const closed = 'http://127.0.0.1:1'
  const post = { method: 'POST', body: 'x' }
  await assert.rejects(guard(t, { allow: here({ origin: closed }) }).get(closed, post), unavailable)
  const missing = Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })
  const origin = `http://name.test:${server.port}`
  const lookups = [() => Promise.reject(missing), async () => [], () => new Promise<never>(() => {})]
  for (const lookup of lookups) {
    const { get, events } = guard(t, { allow: here({ origin }), lookup, connectMs: 50 })
    await assert.rejects(get(origin, post), unavailable)
    assert.deepEqual(
      events.map(({ outcome, address }) => [outcome, address]),
      [['failed', undefined]],
    )
  }
  const unsure = Object.assign(() => Promise.resolve('127.0.0.1' as never), {})
  await assert.rejects(guard(t, { allow: here({ origin }), lookup: unsure }).get(origin), unavailable)
  assert.equal(server.connections(), 0)
})

test('header injection, framing headers and invalid methods are refused before anything is sent', async (t) => {
  const server = await serve(t)
  const { get, egress } = guard(t, { allow: here(server) })
  const wrong: Record<string, string>[] = [
    ...['a\r\nx-evil: 1', 'a\nb', 'a\rb', 'a\0b', 'a\u2028b', 'a\u010ab', '\x7f'].map((value) => ({ 'x-a': value })),
    ...['x a', 'x:a', 'x\r\na', '', 'ü', 'x\0'].map((name) => ({ [name]: 'v' })),
    ...[
      'Host',
      'Content-Length',
      'transfer-encoding',
      'Connection',
      'Upgrade',
      'TE',
      'Expect',
      'Trailer',
      'Keep-Alive',
      'Proxy-Authorization',
    ].map((name) => ({ [name]: '1' })),
    Object.fromEntries(Array.from({ length: 201 }, (_, index) => [`x-${index}`, '1'])),
    { 'x-long': 'x'.repeat(70_000) },
  ]
  for (const headers of wrong)
    await assert.rejects(get(server.origin, { headers }), fails('INPUT_INVALID'), JSON.stringify(headers).slice(0, 80))
  await assert.rejects(
    egress.fetch({ owner: 'test' })(server.origin, { headers: { 'transfer-encoding': 'chunked' } }),
    fails('INPUT_INVALID'),
  )
  for (const method of ['CONNECT', 'TRACE', 'track'])
    await assert.rejects(get(server.origin, { method }), fails('EGRESS_DENIED'))
  for (const method of ['GET / HTTP/1.1\r\nx: y', '', 'G T'])
    await assert.rejects(get(server.origin, { method }), fails('INPUT_INVALID'))
  assert.equal(server.connections(), 0)
  await (await get(`${server.origin}/a\r\nb: c?d\r\n\r\nGET /evil HTTP/1.1`)).text()
  assert.deepEqual(
    server.seen.map(({ url }) => url),
    ['/ab:%20c?dGET%20/evil%20HTTP/1.1'],
  )
})

test('proxy environment variables are ignored', async (t) => {
  const [server, proxy] = [await serve(t), await serve(t, (_, response) => response.end('proxied'))]
  const names = ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'https_proxy', 'ALL_PROXY', 'all_proxy']
  const before = { ...process.env }
  t.after(() => {
    for (const name of [...names, 'NO_PROXY', 'no_proxy', 'NODE_USE_ENV_PROXY']) {
      if (before[name] === undefined) delete process.env[name]
      else process.env[name] = before[name]
    }
  })
  for (const name of names) process.env[name] = proxy.origin
  for (const name of ['NO_PROXY', 'no_proxy']) delete process.env[name]
  process.env.NODE_USE_ENV_PROXY = '1'
  const agent = new EnvHttpProxyAgent()
  t.after(() => agent.destroy())
  await undiciRequest(server.origin, { dispatcher: agent, signal: t.signal }).then(
    ({ body }) => body.dump(),
    () => {},
  )
  assert.ok(proxy.connections() > 0, 'without the guard, the variables lead to the proxy')
  const before2 = proxy.connections()
  const { get } = guard(t, { allow: here(server) })
  assert.equal(await (await get(server.origin)).text(), 'ok')
  assert.equal(proxy.connections(), before2)
})

test('events hold owner, target and outcome and no request data, and a listener that throws fails no request', async (t) => {
  const server = await serve(t)
  const { get, events } = guard(t, { allow: here(server) })
  await (
    await get(`${server.origin}/secret-path?secret=query#secret`, {
      headers: { 'x-key': 'secret' },
      method: 'POST',
      body: 'secret',
    })
  ).text()
  await assert.rejects(get('https://user:secret@example.com/secret-path?secret'), fails('EGRESS_DENIED'))
  await assert.rejects(get('https://example.com/secret-path?secret'), fails('EGRESS_DENIED'))
  assert.deepEqual(events, [
    { owner: 'test', scheme: 'http', host: '127.0.0.1', port: server.port, outcome: 'connected', address: '127.0.0.1' },
    {
      owner: 'test',
      scheme: 'https',
      host: 'example.com',
      port: 443,
      outcome: 'refused',
      reason: 'a user or a password in its URL',
    },
    { owner: 'test', scheme: 'https', host: 'example.com', port: 443, outcome: 'refused', reason: 'no rule allows it' },
  ])
  const rude = createEgressGuard({ allow: here(server), onEvent: () => assert.fail('subscriber') })
  t.after(() => rude.close())
  assert.equal(await (await rude.request({ owner: 'test', url: server.origin, signal: t.signal })).text(), 'ok')
})

test('a URL object mutated between two requests is checked again', async (t) => {
  const [server, other] = [await serve(t), await serve(t)]
  const { get } = guard(t, { allow: here(server) })
  const url = new URL(server.origin)
  await (await get(url)).bytes()
  url.username = 'me'
  await assert.rejects(get(url), fails('EGRESS_DENIED'))
  url.username = ''
  await (await get(url)).bytes()
  url.port = String(other.port)
  await assert.rejects(get(url), fails('EGRESS_DENIED'))
  assert.deepEqual([server.seen.length, other.seen.length], [2, 0])
})

test('a later header replaces an earlier one of the same name, and replaces a default header', async (t) => {
  const server = await serve(t)
  const { get } = guard(t, { allow: here(server) })
  await (await get(server.origin, { headers: { 'X-A': 'first', 'x-a': 'second', 'User-Agent': 'mine' } })).bytes()
  const { headers } = server.seen[0] ?? {}
  assert.deepEqual([headers?.['x-a'], headers?.['user-agent'], headers?.accept], ['second', 'mine', '*/*'])
})
