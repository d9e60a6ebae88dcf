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

test('on this machine only names of this machine are answered, so that no page can have its own name lead here', async (t) => {
  const { server, ask } = await startRig(t)
  const status = async (host: string): Promise<number> =>
    partsOf(await exchange(server, [`GET /metrics HTTP/1.1\r\n${host}Connection: close\r\n\r\n`])).status
  const { port } = server
  for (const own of ['localhost', `127.0.0.1:${port}`, `[::1]:${port}`, 'LOCALHOST:1']) {
    assert.equal(await status(`Host: ${own}\r\n`), 200, own)
  }
  for (const other of [
    'evil.example',
    `evil.example:${port}`,
    'localhost.evil.example',
    '127.0.0.1.nip.io',
    'localhost@evil',
    '',
  ]) {
    assert.equal(await status(`Host: ${other}\r\n`), 403, other)
  }
  assert.equal(await status(''), 400)
  assert.equal((await ask('/v1/workers', { headers: { 'x-forwarded-host': 'evil.example' } })).status, 200)
})

test('names and pages that the configuration knows are answered', async (t) => {
  // The control of the test above: the same request, and nothing that guards against it.
  const { server, ask } = await startRig(t, { hosts: ['evil.example'], origins: ['http://evil.example'] })
  const { status } = partsOf(
    await exchange(server, ['GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n']),
  )
  assert.equal(status, 200)
  assert.equal((await ask('/v1/workers', { headers: { origin: 'http://evil.example' } })).status, 200)
  assert.equal((await ask('/v1/workers', { headers: { origin: 'http://other.example' } })).status, 403)
})

test('pages from elsewhere are refused, its own are not', async (t) => {
  const { ask, server, post, service } = await startRig(t)
  for (const origin of pages) {
    assert.equal((await post('/v1/calls', { tool: 'demo:add' }, { origin })).status, 403, origin)
    assert.equal((await ask('/healthz', { headers: { origin } })).status, 403, origin)
  }
  assert.equal(service.submitted.length, 0)
  assert.equal((await ask('/v1/workers', { headers: { origin: server.url } })).status, 200)
})

test('a server that others can reach is answered by any name, unless names are configured', async (t) => {
  const ask = async (hosts: readonly string[]): Promise<number> => {
    const { server } = await startRig(t, { host: '0.0.0.0', hosts })
    const head = 'GET /healthz HTTP/1.1\r\nHost: gantry.example\r\nConnection: close\r\n\r\n'
    return partsOf(await exchange({ ...server, host: '127.0.0.1' }, [head])).status
  }
  assert.deepEqual([await ask([]), await ask(['gantry.example']), await ask(['other.example'])], [200, 200, 403])
})
