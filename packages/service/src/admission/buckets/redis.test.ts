import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freshKey, redisForFile } from '../../brokers/transports/redis/redis.fixture.ts'
import { textOf } from '../../brokers/transports/redis/reply.ts'
import { testBuckets } from '../../conformance/buckets.ts'
import { redisBuckets } from './redis.ts'

const redis = redisForFile()
const prefix = 'gantry:bucket:'

testBuckets('Redis', async (t) => {
  const connections = await redis.open(t)
  return {
    buckets: redisBuckets(connections),
    other: redisBuckets(await redis.open(t)),
    async pass(key, ms) {
      const at = Number(textOf(await connections.call(['HGET', prefix + key, 'at'])))
      await connections.call(['HSET', prefix + key, 'at', String(at - ms)])
    },
    key: freshKey,
  }
})

test('a bucket in Redis expires when it is full again, so that unused buckets do not accumulate', async (t) => {
  const connections = await redis.open(t)
  const key = freshKey()
  await redisBuckets(connections).draw([{ key, capacity: 10, perMs: 0.001, least: 1, most: 10 }])
  const ttl = Number(await connections.call(['PTTL', prefix + key]))
  assert.ok(ttl > 9_000 && ttl <= 11_000, `${ttl} ms`)
})
