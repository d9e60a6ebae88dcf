import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { DefinedTool } from '@gantry/core'
import type { RedisConnections } from '../transports/redis/connection.ts'
import { redisForFile } from '../transports/redis/redis.fixture.ts'
import { executorOf, freshPlace, never, toolOf, view } from './catalog.fixture.ts'
import { digestsKey, publishCatalog } from './catalog-publisher.ts'
import { createStaleness, type StalenessOptions } from './redis-gateway.ts'
import { writeCatalog } from './write-catalog.ts'

const engine = redisForFile()

/** A worker with these tools that has published its catalog. */
async function workerOf(
  t: TestContext,
  tools: readonly DefinedTool[],
  prefix: string,
  options: Partial<StalenessOptions> = {},
) {
  const redis = await engine.open(t)
  const executor = executorOf(t, ...tools)
  const written = await writeCatalog(executor, view, never)
  await publishCatalog(redis, written, { prefix })
  const judge = createStaleness({ redis, own: async () => written, prefix, ...options })
  return {
    executor,
    redis,
    hash: written.hash,
    judge: (catalogHash: string | undefined, id: string) =>
      judge({ catalogHash, tool: executor.catalog.find(id) }, never),
  }
}

const [add, fetchIt] = [toolOf('math:add'), toolOf('web:fetch')]
const changed = toolOf('web:fetch', { description: 'Fetches it in another way.' })

test('a request with the hash of the catalog is fresh, with an unknown hash stale', async (t) => {
  const { judge, hash } = await workerOf(t, [add], freshPlace().prefix)
  assert.equal(await judge(hash, 'math:add'), 'fresh')
  for (const other of ['0'.repeat(64), hash.toUpperCase(), `${hash} `, `${hash}\n`, '*', 'x', '__proto__']) {
    assert.equal(await judge(other, 'math:add'), 'stale', other)
  }
})

test('a request without a hash is fresh, unless the configuration requires a hash', async (t) => {
  const { prefix } = freshPlace()
  const strict = await workerOf(t, [add], prefix, { requireHash: true })
  for (const none of [undefined, '']) assert.equal(await strict.judge(none, 'math:add'), 'stale')
  const lax = await workerOf(t, [add], prefix)
  for (const none of [undefined, '']) assert.equal(await lax.judge(none, 'math:add'), 'fresh')
  assert.equal(await lax.judge('0'.repeat(64), 'math:add'), 'stale')
})

test('between two deploys each request is judged by its own tool, in both directions', async (t) => {
  const { prefix } = freshPlace()
  const old = await workerOf(t, [add, fetchIt], prefix)
  const young = await workerOf(t, [add, changed, toolOf('new:one')], prefix)
  assert.notEqual(old.hash, young.hash)
  assert.deepEqual(
    [await young.judge(old.hash, 'math:add'), await young.judge(old.hash, 'web:fetch')],
    ['fresh', 'stale'],
  )
  assert.deepEqual(
    [await old.judge(young.hash, 'math:add'), await old.judge(young.hash, 'web:fetch')],
    ['fresh', 'stale'],
  )
  assert.equal(await young.judge(old.hash, 'new:one'), 'stale')
})

test('a tool that changed after the catalog was written is stale even under its hash', async (t) => {
  const { judge, hash, executor } = await workerOf(t, [add, fetchIt], freshPlace().prefix)
  assert.equal(await judge(hash, 'web:fetch'), 'fresh')
  executor.update(changed)
  assert.deepEqual([await judge(hash, 'web:fetch'), await judge(hash, 'math:add')], ['stale', 'fresh'])
})

test('a plain name that now means another tool is stale', async (t) => {
  const { prefix } = freshPlace()
  const before = await workerOf(t, [toolOf('a:search')], prefix)
  const after = await workerOf(t, [toolOf('b:search')], prefix)
  const names = await view.names(after.executor)
  assert.equal(names.find('search'), 'b:search')
  assert.equal(await after.judge(before.hash, names.find('search')), 'stale')
})

test('malformed hashes do not reach Redis, and the digests of a known hash are read once', async (t) => {
  const { prefix } = freshPlace()
  const redis = await engine.open(t)
  const asked: unknown[] = []
  const counted = {
    cluster: false,
    call: (command: Parameters<RedisConnections['call']>[0]) => {
      asked.push(command)
      return redis.call(command)
    },
  }
  const old = await workerOf(t, [add, fetchIt], prefix)
  const young = await workerOf(t, [add], prefix, { redis: counted })
  for (const hash of ['a\r\nDEL x', '*', 'x'.repeat(100_000)])
    assert.equal(await young.judge(hash, 'math:add'), 'stale')
  assert.equal(asked.length, 0)
  for (let time = 0; time < 5; time += 1) assert.equal(await young.judge(old.hash, 'math:add'), 'fresh')
  assert.deepEqual(asked, [['HGET', digestsKey(old.hash, prefix), 'math:add']])
  const wrong = 'f'.repeat(64)
  await redis.call(['SET', digestsKey(wrong, prefix), 'no map'])
  assert.equal(await young.judge(wrong, 'math:add'), 'stale')
})

test('while Redis is unavailable a request with another hash fails, and one with the worker’s own hash is fresh', async (t) => {
  const { prefix } = freshPlace()
  const old = await workerOf(t, [add, fetchIt], prefix)
  const young = await workerOf(t, [add], prefix)
  const server = await engine.server(t)
  server.kill()
  try {
    await assert.rejects(young.judge(old.hash, 'math:add'), { code: 'STORE_UNAVAILABLE' })
    assert.equal(await young.judge(young.hash, 'math:add'), 'fresh')
  } finally {
    await server.restart()
  }
})
