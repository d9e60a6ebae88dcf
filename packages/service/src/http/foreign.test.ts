import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exchange, partsOf, startRig } from './http.fixture.ts'

const pages = [
  'http://evil.example',
  'null',
  'http://localhost:1',
  'file://',
  'chrome-extension://abc',
  'http://localhost:70000',
]

test('a server on loopback answers only to local host names, as protection against DNS rebinding', async (t) => {
  const { server, ask } = await startRig(t)
  const status = async (host: string): Promise<number> =>
    partsOf(await exchange(server, [`GET /metrics HTTP/1.1\r\n${host}Connection: close\r\n\r\n`])).status
  const { port } = server
  for (const own of ['localhost', `127.0.0.1:${port}`, `[::1]:${port}`, 'LOCALHOST:1']) {
    assert.equal(await status(`Host: ${own}\r\n`), 200, own)
  }
  for (const other of ['evil.example', `evil.example:${port}`, 'localhost.evil.example', '127.0.0.1.nip.io']) {
    assert.equal(await status(`Host: ${other}\r\n`), 403, other)
  }
  assert.equal((await ask('/v1/workers', { headers: { 'x-forwarded-host': 'evil.example' } })).status, 200)
})

test('configured hosts and origins are answered', async (t) => {
  // The control of the test above: the same request with the host allowed.
  const { server, ask } = await startRig(t, { hosts: ['evil.example'], origins: ['http://evil.example'] })
  const { status } = partsOf(
    await exchange(server, ['GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n']),
  )
  assert.equal(status, 200)
  assert.equal((await ask('/v1/workers', { headers: { origin: 'http://evil.example' } })).status, 200)
  assert.equal((await ask('/v1/workers', { headers: { origin: 'http://other.example' } })).status, 403)
})

test('requests from pages of other origins are refused, those of its own origin are not', async (t) => {
  const { ask, server, post, service } = await startRig(t)
  for (const origin of pages) {
    assert.equal((await post('/v1/calls', { tool: 'demo:add' }, { origin })).status, 403, origin)
    assert.equal((await ask('/healthz', { headers: { origin } })).status, 403, origin)
  }
  assert.equal(service.submitted.length, 0)
  assert.equal((await ask('/v1/workers', { headers: { origin: server.url } })).status, 200)
})

test('a server on a public address answers to any host name, unless hosts are configured', async (t) => {
  const ask = async (hosts: readonly string[]): Promise<number> => {
    const { server } = await startRig(t, { host: '0.0.0.0', hosts })
    const head = 'GET /healthz HTTP/1.1\r\nHost: gantry.example\r\nConnection: close\r\n\r\n'
    return partsOf(await exchange({ ...server, host: '127.0.0.1' }, [head])).status
  }
  assert.deepEqual([await ask([]), await ask(['gantry.example']), await ask(['other.example'])], [200, 200, 403])
})

test('a request with no Host header, two, or a malformed one is 400, wherever the server listens', async (t) => {
  for (const host of ['127.0.0.1', '0.0.0.0']) {
    const { server } = await startRig(t, { host })
    const status = async (target: string, ...hosts: string[]): Promise<number> => {
      const lines = hosts.map((one) => `Host: ${one}\r\n`).join('')
      const request = `GET ${target} HTTP/1.1\r\n${lines}Connection: close\r\n\r\n`
      return partsOf(await exchange({ ...server, host: '127.0.0.1' }, [request])).status
    }
    assert.equal(await status('/healthz'), 400, 'none')
    for (const bad of [
      '',
      'me@localhost',
      'me:pw@localhost',
      'localhost:70000',
      'localhost:x',
      'localhost/x',
      'localhost, evil.example',
      'local host',
      'http://localhost',
      '[::1',
      'a\\b',
      'é',
    ]) {
      assert.equal(await status('/healthz', bad), 400, bad)
    }
    assert.equal(await status('/healthz', 'localhost', 'evil.example'), 400, 'two')
    assert.equal(await status('/healthz', 'localhost', 'localhost'), 400, 'the same twice')
    assert.equal(await status('/healthz', 'localhost'), 200)
  }
})

test('an absolute request target must match the Host header, else it is 400', async (t) => {
  const { server, key } = await startRig(t)
  const ask = async (target: string, host = 'localhost'): Promise<number> => {
    const head = `Host: ${host}\r\nAuthorization: Bearer ${key}\r\nConnection: close\r\n\r\n`
    return partsOf(await exchange(server, [`GET ${target} HTTP/1.1\r\n${head}`])).status
  }
  for (const path of ['/healthz', '/v1/workers', '/nothing']) {
    assert.equal(await ask(`http://evil.example${path}`), 400, path)
    assert.equal(await ask(`http://localhost:1${path}`), 400, path)
    assert.equal(await ask(`http://me@localhost${path}`), 400, path)
    assert.equal(await ask(`ftp://localhost${path}`), 400, path)
  }
  assert.equal(await ask('http://localhost', 'evil.example'), 400)
  assert.equal(await ask('http://localhost/healthz'), 200)
  assert.equal(await ask('HTTP://LOCALHOST/v1/workers?x=1'), 400, 'a query that the route does not know')
  assert.equal(await ask('http://localhost/v1/workers'), 200)
  assert.equal(await ask('http://localhost'), 404)
})
