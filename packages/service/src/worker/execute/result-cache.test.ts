import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freshKey, redisForFile } from '../../brokers/transports/redis/redis.fixture.ts'
import { listOf, numberOf, textOf } from '../../brokers/transports/redis/reply.ts'
import { someResult } from '../../conformance/call-store/samples.ts'
import { type CacheableCall, createResultCache } from './result-cache.ts'

const file = redisForFile()

const call: CacheableCall = {
  rule: { ttlMs: 60_000 },
  identity: { tenant: 'acme', principal: 'ada', permissions: ['a', 'b'] },
  tool: { effect: 'read' },
  toolId: 'test:find:1.0.0',
  digest: 'd1',
  args: { q: 'x', n: 1 },
}

const result = someResult('c1', { output: { found: 'élan' } })

test('a result is found again for the same caller with the same permissions, whatever the order of names', async (t) => {
  const cache = createResultCache({ redis: await file.open(t), prefix: freshKey() })
  assert.equal(await cache.get(call), undefined)
  await cache.put(call, result)
  const identity = { tenant: 'acme', principal: 'ada', permissions: ['b', 'a'] }
  assert.deepEqual(await cache.get({ ...call, identity, args: { n: 1, q: 'x' } }), result)
})

test('another tenant, caller, permission, role, tool, definition or argument never gets it', async (t) => {
  const cache = createResultCache({ redis: await file.open(t), prefix: freshKey() })
  await cache.put(call, result)
  const { identity } = call
  const others: readonly CacheableCall[] = [
    { ...call, identity: { ...identity, tenant: 'other' } },
    { ...call, identity: { ...identity, principal: 'bob' } },
    { ...call, identity: { ...identity, permissions: ['a'] } },
    { ...call, identity: { ...identity, permissions: ['a', 'b', 'c'] } },
    { ...call, identity: { ...identity, permissions: ['a","b'] } },
    { ...call, identity: { ...identity, roles: ['admin'] } },
    { ...call, identity: { tenant: 'acmeada', principal: '', permissions: ['a', 'b'] } },
    { ...call, rule: { ttlMs: 60_000, scope: 'tenant' } },
    { ...call, toolId: 'test:find:1.0.1' },
    { ...call, digest: 'd2' },
    { ...call, args: { q: 'x', n: '1' } },
  ]
  for (const other of others) assert.equal(await cache.get(other), undefined, JSON.stringify(other))
  assert.deepEqual(await cache.get(call), result)
})

test('with the scope tenant every principal of the tenant shares it, and no other tenant does', async (t) => {
  const cache = createResultCache({ redis: await file.open(t), prefix: freshKey() })
  const shared: CacheableCall = { ...call, rule: { ttlMs: 60_000, scope: 'tenant' } }
  await cache.put(shared, result)
  const bob = { principal: 'bob', permissions: [] }
  assert.deepEqual(await cache.get({ ...shared, identity: { ...bob, tenant: 'acme' } }), result)
  assert.equal(await cache.get({ ...shared, identity: { ...bob, tenant: 'other' } }), undefined)
})

test('only plain results of tools that read, without secrets, are cached, and not for longer than allowed', async (t) => {
  const redis = await file.open(t)
  const prefix = freshKey()
  const cache = createResultCache({ redis, prefix, maxTtlMs: 5_000, maxBytes: 1_000 })
  const artifact = { id: 'a', name: 'n', mimeType: 'text/plain', bytes: 1, digest: 'sha256:0' }
  await cache.put(call, { ...result, status: 'failed' })
  await cache.put(call, { ...result, artifacts: [artifact] })
  await cache.put(call, { ...result, effects: [{ kind: 'message', message: 'hi' }] })
  await cache.put(call, { ...result, output: 'x'.repeat(1_000) })
  await cache.put({ ...call, tool: { effect: 'keyed' } }, result)
  await cache.put({ ...call, tool: { effect: 'read', secrets: ['token'] } }, result)
  await cache.put({ ...call, rule: { ttlMs: 0 } }, result)
  await cache.put({ ...call, rule: { ttlMs: Number.NaN } }, result)
  const keys = async () => listOf(await redis.call(['KEYS', `${prefix}*`])).map(textOf)
  assert.deepEqual(await keys(), [])
  await cache.put(call, result)
  const [key = ''] = await keys()
  const left = numberOf(await redis.call(['PTTL', key])) ?? 0
  assert.ok(left > 0 && left <= 5_000)
  await redis.call(['SET', key, '{"status":"ok"'])
  assert.equal(await cache.get(call), undefined)
})

test('a Redis that does not answer or is down is a miss', async (t) => {
  const server = await file.server(t)
  const redis = await file.open(t)
  const cache = createResultCache({ redis, prefix: freshKey(), waitMs: 50 })
  await cache.put(call, result)
  server.pause()
  try {
    assert.equal(await cache.get(call), undefined)
    await cache.put(call, result)
  } finally {
    server.resume()
  }
  server.kill()
  assert.equal(await cache.get(call), undefined)
  await cache.put(call, result)
})
