import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { fails, guard, here, serve } from './egress.fixture.ts'

const credentials = {
  authorization: 'Bearer tok-1',
  cookie: 'sid=tok-2',
  'x-api-key': 'tok-3',
  'x-goog-token': 'tok-4',
}

test('a redirect response is returned unless the request allows redirects', async (t) => {
  const server = await serve(t, (_, response) => response.writeHead(302, { location: '/next' }).end('moved'))
  const { get, egress } = guard(t, { allow: here(server) })
  const response = await get(server.origin)
  assert.equal(response.status, 302)
  assert.equal(response.headers.get('location'), '/next')
  assert.equal(await response.text(), 'moved')
  assert.equal((await egress.fetch({ owner: 'test' })(server.origin)).status, 302)
  assert.deepEqual(
    server.seen.map(({ url }) => url),
    ['/', '/'],
  )
})

test('every redirect to a private address is refused without a connection to it', async (t) => {
  const secret = await serve(t)
  let status = 301
  const server = await serve(t, (_, response) =>
    response.writeHead(status, { location: `http://secret.test:${secret.port}/` }).end(),
  )
  const lookup = async () => [{ address: '127.0.0.1', family: 4 }]
  const open = { origin: `http://open.test:${server.port}`, private: true }
  const strict = guard(t, { allow: [open, `http://secret.test:${secret.port}`], lookup })
  const unnamed = guard(t, { allow: [open], lookup })
  const lax = guard(t, { allow: [open, { origin: `http://secret.test:${secret.port}`, private: true }], lookup })
  for (status of [301, 302, 303, 307, 308]) {
    const url = `${open.origin}/`
    await assert.rejects(strict.get(url, { redirects: 3 }), fails('EGRESS_DENIED', { effect: 'none' }))
    await assert.rejects(unnamed.get(url, { redirects: 3 }), fails('EGRESS_DENIED', { effect: 'none' }))
    await assert.rejects(lax.get(url, { redirects: 3, only: [open.origin] }), fails('EGRESS_DENIED'))
    await assert.rejects(strict.egress.fetch({ owner: 'test', redirects: 3 })(url), fails('EGRESS_DENIED'))
    assert.equal(secret.connections(), 0)
  }
  assert.equal(await (await lax.get(`${open.origin}/`, { redirects: 1 })).text(), 'ok')
  assert.equal(secret.connections(), 1)
})

test('a redirect whose method no rule allows is refused', async (t) => {
  const other = await serve(t)
  const server = await serve(t, (_, response) => response.writeHead(303, { location: other.origin }).end())
  const { get } = guard(t, { allow: [...here(server), { origin: other.origin, private: true, methods: ['POST'] }] })
  await assert.rejects(
    get(server.origin, { method: 'POST', body: 'x', redirects: 1 }),
    fails('EGRESS_DENIED', { effect: 'possible' }),
  )
  await assert.rejects(get(other.origin), /lists other methods; add "GET" to its methods\.$/)
  assert.equal(other.connections(), 0)
})

test('a redirect to another origin sends no header that could hold a credential', async (t) => {
  const third = await serve(t, (_, response) => response.end('end'))
  const second = await serve(t, (_, response) => response.writeHead(307, { location: `${third.origin}/3` }).end())
  const first = await serve(t, (request, response) =>
    response.writeHead(307, { location: request.url === '/1' ? '/same' : `${second.origin}/2` }).end(),
  )
  const { get } = guard(t, { allow: here(first, second, third) })
  const headers = { ...credentials, accept: 'text/plain', 'accept-language': 'de' }
  const response = await get(`${first.origin}/1`, { headers, redirects: 5 })
  assert.equal(response.url, `${third.origin}/3`)
  for (const { headers } of first.seen) assert.equal(headers['x-api-key'], 'tok-3')
  assert.equal(first.seen.length, 2)
  for (const { headers } of [...second.seen, ...third.seen]) {
    assert.deepEqual(Object.keys(headers).sort(), [
      'accept',
      'accept-encoding',
      'accept-language',
      'connection',
      'host',
      'user-agent',
    ])
    assert.ok(!JSON.stringify(headers).includes('tok-'))
  }
  assert.equal(second.seen.length + third.seen.length, 2)
})

test('credentials dropped by a redirect stay dropped when a later redirect returns to the first origin', async (t) => {
  const second = await serve(t, (_, response) => response.writeHead(302, { location: `${first.origin}/back` }).end())
  const first = await serve(t, (request, response) =>
    request.url === '/back' ? response.end('ok') : response.writeHead(302, { location: second.origin }).end(),
  )
  const { get } = guard(t, { allow: here(first, second) })
  await (await get(first.origin, { headers: credentials, redirects: 5 })).text()
  assert.equal(first.seen[0]?.headers.authorization, 'Bearer tok-1')
  assert.equal(first.seen[1]?.headers.authorization, undefined)
})

test('301, 302 and 303 turn POST into GET without its body; 307 and 308 repeat it at the same origin', async (t) => {
  let status = 301
  const server = await serve(t, (request, response) =>
    request.url === '/' ? response.writeHead(status, { location: '/next' }).end() : response.end('ok'),
  )
  const { get } = guard(t, { allow: here(server) })
  for (status of [301, 302, 303, 307, 308]) {
    server.seen.length = 0
    await (
      await get(server.origin, { method: 'POST', body: 'data', headers: { 'content-type': 'text/x' }, redirects: 1 })
    ).text()
    const next = server.seen[1]
    const kept = status > 303
    assert.deepEqual(
      [next?.method, next?.body, next?.headers['content-type']],
      kept ? ['POST', 'data', 'text/x'] : ['GET', '', undefined],
    )
  }
  status = 302
  server.seen.length = 0
  await (await get(server.origin, { method: 'DELETE', redirects: 1 })).text()
  assert.equal(server.seen[1]?.method, 'DELETE')
  status = 303
  await (await get(server.origin, { method: 'HEAD', redirects: 1 })).text()
  assert.equal(server.seen[3]?.method, 'HEAD')
})

test('a request with a side effect is not redirected to another origin, and a stream body is not sent twice', async (t) => {
  const other = await serve(t)
  const server = await serve(t, (request, response) =>
    response.writeHead(307, { location: request.url === '/here' ? '/again' : other.origin }).end(),
  )
  const { get } = guard(t, { allow: here(server, other) })
  const denied = fails('EGRESS_DENIED', { effect: 'possible' })
  await assert.rejects(get(server.origin, { method: 'POST', body: 'secret', redirects: 1 }), denied)
  await assert.rejects(get(server.origin, { method: 'DELETE', redirects: 1 }), denied)
  const body = Readable.from([Buffer.from('piece')])
  await assert.rejects(get(`${server.origin}/here`, { method: 'POST', body, redirects: 1 }), fails('BACKEND_FAILED'))
  assert.equal(other.connections(), 0)
})

test('after a POST, a redirect to a closed port reports effect possible', async (t) => {
  const gone = 'http://127.0.0.1:1'
  const server = await serve(t, (_, response) => response.writeHead(303, { location: gone }).end())
  const { get } = guard(t, { allow: here(server, { origin: gone }) })
  const asked = { method: 'POST', body: 'x', redirects: 1 }
  await assert.rejects(get(server.origin, asked), fails('BACKEND_FAILED', { effect: 'possible', retryable: false }))
  await assert.rejects(get(server.origin, { redirects: 1 }), fails('BACKEND_UNAVAILABLE', { effect: 'none' }))
})

test('a signal that aborts after a POST keeps its own reason', async (t) => {
  const stop = new AbortController()
  const reason = new ToolError('TIMEOUT', 'the time has passed')
  const server = await serve(t, (request, response) => {
    if (request.method === 'POST') response.writeHead(303, { location: '/slow' }).end()
    else stop.abort(reason)
  })
  const { get } = guard(t, { allow: here(server) })
  const asked = { method: 'POST', body: 'x', redirects: 1, signal: stop.signal }
  await assert.rejects(get(server.origin, asked), (error) => error === reason)
})

test('a redirect with a backslash, a control character, user info or another scheme is refused', async (t) => {
  const other = await serve(t)
  const place = other.origin.slice('http://'.length)
  let location = ''
  const server = await serve(t, (_, response) => response.writeHead(302, { location }).end())
  const { get, events } = guard(t, { allow: here(server, other) })
  const refused = [
    ...[`\\\\${place}/`, `/\\${place}/`, `\\/${place}`, `http:\\\\${place}/`, `/\t/${place}/`, `/ /${place}`],
    ...[
      `http://user@${place}/`,
      `http://user:word@${place}/`,
      'file:///etc/passwd',
      `gopher://${place}/`,
      'data:text/plain,x',
    ],
    ...[`ftp://${place}/`, 'javascript:1', 'http://[::1', 'http://a b/'],
  ]
  for (location of refused) {
    await assert.rejects(get(server.origin, { redirects: 2 }), fails('EGRESS_DENIED'), location)
  }
  assert.equal(other.connections(), 0)
  assert.equal(events.filter(({ outcome }) => outcome === 'refused').length, refused.length)

  location = `//${place}/fine`
  assert.equal(await (await get(server.origin, { redirects: 2 })).text(), 'ok')
  assert.equal(other.seen[0]?.url, '/fine')
})

test('redirects beyond the limit of the request fail with BACKEND_FAILED', async (t) => {
  const server = await serve(t, (request, response) => response.writeHead(302, { location: `${request.url}x` }).end())
  const { get } = guard(t, { allow: here(server) })
  await assert.rejects(get(server.origin, { redirects: 3 }), fails('BACKEND_FAILED'))
  assert.equal(server.seen.length, 4)
  await assert.rejects(get(server.origin, { redirects: 10_000 }), fails('BACKEND_FAILED'))
  assert.equal(server.seen.length, 4 + 21)
})

test('egress.fetch follows redirects only when both its caller and its scope allow them', async (t) => {
  const server = await serve(t, (request, response) =>
    request.url === '/' ? response.writeHead(302, { location: '/next' }).end() : response.end('ok'),
  )
  const { egress } = guard(t, { allow: here(server) })
  const fetch = egress.fetch({ owner: 'test', redirects: 2 })
  const followed = await fetch(server.origin)
  assert.deepEqual([await followed.text(), followed.url, followed.redirected], ['ok', `${server.origin}/next`, true])
  assert.equal((await fetch(server.origin, { redirect: 'manual' })).status, 302)
  await assert.rejects(fetch(server.origin, { redirect: 'error' }), TypeError)
})
