import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startPostgres } from '../../../scripts/engines/postgres.ts'
import { signedHeaders, somePair } from '../src/http/authentication/signed-request.fixture.ts'
import { serviceFolder, startServe } from './serve.fixture.ts'

const initialize = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
})

test('while PostgreSQL is frozen every request with a stored key is answered 503, and the owner key works', {
  timeout: 120_000,
}, async (t) => {
  const postgres = await startPostgres().catch((error: unknown) => {
    if (process.env.GANTRY_ENGINES !== 'required') t.skip(String(error))
    throw error
  })
  t.after(() => postgres.stop())
  const service = startServe(t, serviceFolder(t), { environment: { DATABASE_URL: postgres.url } })
  const url = await service.ready
  const [bearer, other] = await Promise.all(
    ['bearer', 'other'].map(async (name) => (await service.post('/v1/keys', { name, permissions: ['*'] })).value.text),
  )
  const { privateKey, publicKey } = somePair()
  const signing = (await service.post('/v1/keys', { name: 'signing', publicKey })).value.key.id
  const unknown = `gk_${'0'.repeat(12)}_${'x'.repeat(43)}`
  const get = (key: string, path = '/v1/tools') =>
    fetch(`${url}${path}`, { headers: { authorization: `Bearer ${key}` } })
  const signed = () => {
    const headers = signedHeaders({ keyId: signing, privateKey, path: '/v1/tools', host: new URL(url).host })
    return fetch(`${url}/v1/tools`, { headers })
  }
  const mcp = () =>
    fetch(`${url}/mcp`, {
      method: 'POST',
      body: initialize,
      headers: {
        authorization: `Bearer ${other}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
    })
  const all = () => [get(bearer), get(unknown), get(unknown, '/v1/calls'), signed(), mcp()]
  const refused = async (answer: Promise<Response>): Promise<void> => {
    const response = await answer
    const { error } = (await response.json()) as { error: { code: string; retryable: boolean } }
    assert.deepEqual(
      [response.status, response.headers.get('retry-after'), error.code, error.retryable],
      [503, '1', 'STORE_UNAVAILABLE', true],
    )
  }
  postgres.pause()
  try {
    assert.equal((await fetch(`${url}/readyz`)).status, 200, 'readiness waits for the database')
    // These wait in their key lookup until the probe finds the database unavailable.
    await Promise.all(all().map(refused))
    // These fail without a lookup.
    await Promise.all(all().map(refused))
    assert.equal((await service.get('/v1/tools')).status, 200)
    assert.equal((await fetch(`${url}/readyz`)).status, 503)
  } finally {
    postgres.resume()
  }
  while ((await fetch(`${url}/readyz`)).status !== 200) t.signal.throwIfAborted()
  assert.deepEqual(await Promise.all(all().map(async (answer) => (await answer).status)), [200, 401, 401, 200, 200])
})
