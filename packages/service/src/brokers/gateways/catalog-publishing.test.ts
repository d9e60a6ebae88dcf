import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises'
import type { Backend, Executor } from '@gantry/core'
import { createExecutor } from '@gantry/tools'
import { redisForFile } from '../transports/redis/redis.fixture.ts'
import { executorOf, freshPlace, never, readAsGateway, toolOf, view } from './catalog.fixture.ts'
import { type PublishingOptions, startCatalogPublishing } from './catalog-publisher.ts'
import { listenConfigUpdates } from './redis-gateway.ts'

const engine = redisForFile()
const times = { keepEveryMs: 20, firstPauseMs: 1, longestPauseMs: 20, readyMs: 1_000 }

function start(t: TestContext, options: Pick<PublishingOptions, 'redis' | 'executor'> & Partial<PublishingOptions>) {
  const failures: unknown[] = []
  const publishing = startCatalogPublishing({ view, times, failed: (error) => failures.push(error), ...options })
  t.after(() => publishing.stop())
  return { ...publishing, failures }
}

async function until(check: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await check())) await pause(2)
}

test('the catalog is published at the start, and again whenever a tool or the configuration changes', async (t) => {
  const redis = await engine.open(t)
  const place = freshPlace()
  const state: { executor: Executor } = { executor: executorOf(t, toolOf('math:add')) }
  const { written, changed } = start(t, { redis, executor: () => state.executor, ...place })
  const shown = async () => (await readAsGateway(redis, place.prefix)).tools.map(({ name }) => name)
  await written(never)
  await until(async () => (await redis.call(['EXISTS', `${place.prefix}:current`])) === 1)
  assert.deepEqual(await shown(), ['add'])
  state.executor.register(toolOf('web:fetch'))
  await until(async () => (await shown()).join() === 'add,fetch')
  state.executor = executorOf(t, toolOf('math:multiply'))
  changed()
  await until(async () => (await shown()).join() === 'multiply')
  assert.equal((await written(never)).digests.has('math:multiply'), true)
})

test('without Redis the catalog is available in the process, and published when Redis is back', async (t) => {
  const redis = await engine.open(t)
  const server = await engine.server(t)
  const place = freshPlace()
  const executor = executorOf(t, toolOf('math:add'))
  server.kill()
  const { written, failures } = start(t, { redis, executor: () => executor, ...place })
  const { hash } = await written(never)
  await until(() => failures.length >= 3)
  await server.restart()
  await until(async () => (await redis.call(['EXISTS', `${place.prefix}:current`]).catch(() => 0)) === 1)
  assert.equal((await readAsGateway(redis, place.prefix)).schema_hash, hash)
})

test('a catalog that Redis lost is published again without a change', async (t) => {
  const redis = await engine.open(t)
  const place = freshPlace()
  const executor = executorOf(t, toolOf('math:add'))
  const versions: number[] = []
  start(t, { redis, executor: () => executor, ...place, published: ({ version }) => versions.push(version) })
  await until(() => versions.length === 1)
  await redis.call(['FLUSHALL'])
  await until(() => versions.length === 2)
})

test('two workers of different deploys do not take the pointer from each other', async (t) => {
  const redis = await engine.open(t)
  const place = freshPlace()
  const [old, young] = [executorOf(t, toolOf('math:add')), executorOf(t, toolOf('math:add'), toolOf('web:fetch'))]
  const versions: number[] = []
  const looks = [0, 0]
  const worker = (index: number, executor: Executor) =>
    start(t, {
      executor: () => executor,
      ...place,
      published: ({ version }) => versions.push(version),
      redis: {
        cluster: false,
        call(command) {
          looks[index] = (looks[index] ?? 0) + 1
          return redis.call(command)
        },
      },
    })
  worker(0, old)
  await until(() => versions.length === 1)
  const second = worker(1, young)
  await until(() => versions.length === 2 && looks.every((count) => count > 15))
  assert.deepEqual(versions, [1, 2])
  assert.equal((await readAsGateway(redis, place.prefix)).schema_hash, (await second.written(never)).hash)
})

test('a wait for a catalog ends when its signal aborts, and when publishing stops', async (t) => {
  const redis = await engine.open(t)
  const backend: Backend = {
    kind: 'test',
    name: 'slow',
    call: () => undefined,
    discover: (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  }
  const executor = createExecutor({ backends: [backend] })
  t.after(() => executor.close({ graceMs: 1 }))
  const signal = AbortSignal.timeout(5)
  const { written, stop } = startCatalogPublishing({
    redis,
    view,
    executor: () => executor,
    ...freshPlace(),
    failed: () => undefined,
    times: { ...times, readyMs: 600_000 },
  })
  await assert.rejects(written(signal), { code: 'CANCELLED' })
  const waiting = assert.rejects(written(never), { code: 'CANCELLED' })
  await stop()
  await waiting
})

test('each message reloads the configuration, reloads do not overlap, and a failed one is reported and followed by the next', async (t) => {
  const redis = await engine.open(t)
  const channel = `${freshPlace().channel}:config`
  const failures: unknown[] = []
  let [reloads, running, most] = [0, 0, 0]
  const reload = async (): Promise<void> => {
    reloads += 1
    running += 1
    most = Math.max(most, running)
    await turn()
    running -= 1
    if (reloads === 1) throw new Error('wrong')
  }
  const stop = listenConfigUpdates(redis, reload, { channel, pauseMs: 1, failed: (error) => failures.push(error) })
  t.after(stop)
  await until(async () => (await redis.call(['PUBLISH', channel, 'first'])) === 1)
  await until(() => failures.length === 1)
  await redis.pipeline(Array.from({ length: 500 }, () => ['PUBLISH', channel, 'x'] as const))
  await until(() => reloads >= 2 && running === 0)
  assert.equal(most, 1)
  assert.ok(reloads < 250, `${reloads} reloads`)
  await stop()
  assert.equal(await redis.call(['PUBLISH', channel, 'late']), 0)
})

test('the configuration is reloaded after an outage of Redis, because a message may have been missed', async (t) => {
  const redis = await engine.open(t)
  const server = await engine.server(t)
  const channel = `${freshPlace().channel}:config`
  let reloads = 0
  const reload = async (): Promise<void> => {
    reloads += 1
  }
  const stop = listenConfigUpdates(redis, reload, { channel, pauseMs: 1, failed: () => undefined })
  t.after(stop)
  await until(async () => (await redis.call(['PUBLISH', channel, 'x'])) === 1)
  await until(() => reloads === 1)
  server.kill()
  await server.restart()
  await until(() => reloads >= 2)
})

test('a failed subscription to the channel is retried', async (t) => {
  const redis = await engine.open(t)
  const server = await engine.server(t)
  const channel = `${freshPlace().channel}:config`
  let [reloads, failures] = [0, 0]
  const reload = async (): Promise<void> => {
    reloads += 1
  }
  server.kill()
  const failed = (): void => {
    failures += 1
  }
  t.after(listenConfigUpdates(redis, reload, { channel, pauseMs: 5, failed }))
  await until(() => failures >= 1)
  await server.restart()
  await until(() => reloads >= 1)
})
