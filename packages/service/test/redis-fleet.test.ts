import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { hasProgram } from '../../../scripts/engines/packages.ts'
import { startRedisCluster, startSentinelFleet } from '../../../scripts/engines/redis-fleet.ts'
import { redisBuckets } from '../src/admission/buckets/redis.ts'
import { openRedis } from '../src/brokers/transports/redis/connection.ts'
import { textOf } from '../src/brokers/transports/redis/reply.ts'
import { redisSpool } from '../src/worker/record/redis-spool.ts'
import { answersTo, eventually, openBrokerSite } from './broker-site.fixture.ts'
import { pgliteDatabase } from './databases.fixture.ts'
import { sampleTool } from './sample-tool.fixture.ts'

const skip = !hasProgram('redis-server') && process.env.GANTRY_ENGINES !== 'required' && 'Redis is not installed'
const ends: (() => Promise<void>)[] = []
after(async () => {
  for (const end of ends) await end()
})

test('a service finds Redis through its sentinels, and continues with the new master after a failover', {
  skip,
}, async (t) => {
  const fleet = await startSentinelFleet()
  ends.push(fleet.stop)
  const site = await openBrokerSite(t, { redisUrl: fleet.url, database: await pgliteDatabase(t) })
  assert.match((await site.reply(await site.call())).result, /^discord:1 /)
  await fleet.failOver()
  const again = await eventually(async () => {
    // Commands fail while the connection is being re-established.
    const asked = site.session('trace-1').then(() => site.call({ tool_name: 'again' }))
    return asked.catch(() => undefined)
  }, 'a server that takes commands')
  assert.match((await site.reply(again)).result, /^discord:1 /)
  await site.stop()
  const wrong = fleet.url.replace(fleet.password, 'wrong')
  await assert.rejects(openRedis({ url: wrong, connectMs: 1_000 }), (error: { code?: string }) => {
    return error.code === 'CONFIG_INVALID' || error.code === 'STORE_UNAVAILABLE'
  })
})

test('calls, sessions, catalog, tasks and rate buckets work on a Redis Cluster', {
  skip,
}, async (t) => {
  const cluster = await startRedisCluster()
  ends.push(cluster.stop)
  const gate = Promise.withResolvers<void>()
  const slow = sampleTool({
    namespace: 'jobs',
    name: 'slow',
    description: 'A job.',
    async run() {
      await gate.promise
      return 'done'
    },
  })
  const site = await openBrokerSite(t, {
    redisUrl: cluster.url,
    database: await pgliteDatabase(t),
    redis: { backgroundMs: 50 },
    tools: [slow],
  })
  assert.equal(site.redis.cluster, true)
  const traces = Array.from({ length: 12 }, (_, n) => `trace-${n}`)
  // The first command to a node opens its connection, and commands fail until it is open.
  const kept = (trace: string) =>
    site.session(trace).then(
      () => true,
      () => undefined,
    )
  await Promise.all(traces.map((trace) => eventually(() => kept(trace), 'a session')))
  const asked = await Promise.all(traces.map((trace_id) => site.call({ ctx: { trace_id } })))
  for (const correlation of asked) assert.match((await site.reply(correlation)).result, /^discord:1 /)
  assert.equal((await site.reply(await site.call({ schema_hash: '0'.repeat(64) }))).status, 'CATALOG_STALE')
  assert.equal((await site.reply(await site.call({ ctx: { trace_id: 'missing' } }))).code, 'UNAUTHENTICATED')

  const long = await site.call({ tool_name: 'slow' })
  const { task_id } = await site.reply(long)
  gate.resolve()
  assert.equal((await site.replies(long, 2))[1].result, 'done')
  assert.equal(textOf(await site.redis.call(['HGET', `sg:task:${task_id}`, 'status'])), 'completed')

  await site.sendBytes(Buffer.from('what?'))
  await eventually(async () => ((await site.heard('sg:stream:dlq')).length === 1 ? true : undefined), 'a dead letter')
  const buckets = redisBuckets(site.redis)
  const draws = ['a', 'b', 'c'].map((key) => ({ key, capacity: 2, perMs: 1e-9, least: 1, most: 5 }))
  assert.deepEqual(
    (await buckets.draw(draws)).map(({ tokens }) => tokens),
    [2, 2, 2],
  )
  assert.deepEqual(
    (await buckets.draw(draws)).map(({ tokens }) => tokens),
    [0, 0, 0],
  )
  await assert.rejects(redisSpool({ redis: site.redis, key: 'spool', spoilt: () => undefined }), {
    code: 'CONFIG_INVALID',
  })
  assert.equal((await site.heard(answersTo)).length, 16)
})
