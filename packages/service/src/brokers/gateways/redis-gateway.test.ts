import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type JsonObject, ToolError } from '@gantry/contract'
import { type DefinedTool, defineTool } from '@gantry/core'
import { createExecutor } from '@gantry/tools'
import { brokerSettings, type RedisSettings } from '../../config/broker-settings.ts'
import { createSnapshots } from '../../config/snapshots.ts'
import { createBus } from '../../observe/bus.ts'
import { decodeMsgpack, encodeMsgpack } from '../codecs/msgpack.ts'
import type { RedisConnections } from '../transports/redis/connection.ts'
import { redisForFile } from '../transports/redis/redis.fixture.ts'
import { textOf } from '../transports/redis/reply.ts'
import { createGatewayView } from './gateway-names.ts'
import { startRedisGateway } from './redis-gateway.ts'

const servers = redisForFile()
const identity = { principal: 'owner', tenant: 'default', permissions: ['*'] }

/** Parts on a real Redis, and the commands that looked up sessions. */
async function partsOn(t: TestContext, more: Partial<RedisConnections> = {}, given: PartOptions = {}) {
  const redis = await servers.open(t)
  const asked: string[] = []
  const counted: RedisConnections = {
    ...redis,
    call(command) {
      if (command.some((part) => String(part).startsWith('sg:tools:session:'))) asked.push(command[0])
      return redis.call(command)
    },
    ...more,
  }
  const document = { redisUrl: 'redis://127.0.0.1:1', transport: 'redis' as const, redis: given.redis ?? {} }
  const usual = brokerSettings(document).redis ?? assert.fail()
  const settings = () => given.settings?.(usual) ?? usual
  const executor = createExecutor({ tools: given.tools ?? [] })
  const snapshots = createSnapshots({ executor, version: '1' })
  const parts = startRedisGateway({
    redis: counted,
    settings,
    snapshots,
    view: createGatewayView(identity),
    bus: createBus(),
    reload: async () => undefined,
  })
  t.after(async () => {
    await parts.stop()
    await snapshots.close()
  })
  const write = (session: string, user: string) =>
    redis.call([
      'SET',
      `sg:tools:session:${session}`,
      Buffer.from(encodeMsgpack({ platform: 'discord', user_id: user })),
    ])
  return { parts, redis, asked, write, usual, executor }
}

interface PartOptions {
  readonly tools?: readonly DefinedTool[]
  readonly redis?: JsonObject
  readonly settings?: (usual: RedisSettings) => RedisSettings
}

test('the sessions of concurrent messages are read by one command, and each message gets its own', async (t) => {
  const { parts, asked, write } = await partsOn(t)
  const names = Array.from({ length: 300 }, (_, n) => `trace-${n}`)
  await Promise.all(names.map((name) => write(name, `user-of-${name}`)))
  const found = await Promise.all(names.map((name) => parts.session(name)))
  assert.deepEqual(
    found.map(({ principal }) => principal),
    names.map((name) => `discord:user-of-${name}`),
  )
  assert.deepEqual(asked, ['EVAL'])
})

test('a session that is missing, or whose key has another type, identifies no sender, and other sessions are not affected', async (t) => {
  const { parts, redis, write } = await partsOn(t)
  await write('here', 'u-1')
  await redis.call(['RPUSH', 'sg:tools:session:list', 'x'])
  const all = await Promise.allSettled(['none', 'here', 'list', 'here'].map((name) => parts.session(name)))
  const became = all.map((one) => (one.status === 'fulfilled' ? one.value.principal : codeOf(one.reason)))
  assert.deepEqual(became, ['UNAUTHENTICATED', 'discord:u-1', 'UNAUTHENTICATED', 'discord:u-1'])
})

test('while Redis is unavailable no sender is identified, and no request is refused for good', async (t) => {
  const unavailable = new ToolError('STORE_UNAVAILABLE', 'Redis is unavailable.')
  const { parts } = await partsOn(t, { call: () => Promise.reject(unavailable) })
  const all = await Promise.allSettled([parts.session('one'), parts.session('two')])
  assert.deepEqual(
    all.map((one) => one.status === 'rejected' && codeOf(one.reason)),
    ['STORE_UNAVAILABLE', 'STORE_UNAVAILABLE'],
  )
})

const note = (description: string) =>
  defineTool({
    namespace: 'test',
    name: 'note',
    version: '1.0.0',
    effect: 'read',
    description,
    inputSchema: { type: 'object' },
    permissions: ['notes'],
    run: () => 'noted',
  })

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 10))
}

const current = async (redis: RedisConnections): Promise<string> =>
  textOf(await redis.call(['GET', 'sg:tools:catalog:state']))
    .split(':')
    .at(-1) ?? ''

/** All tests of a Redis share one catalog, so each begins without what others published. */
const emptied = async (t: TestContext) => (await servers.open(t)).call(['FLUSHALL'])

test('in a rolling deploy a tool that only newer workers have is left to them, and an unknown one is stale', async (t) => {
  await emptied(t)
  const old = await partsOn(t, {}, { tools: [note('Old.')] })
  await until(async () => (await current(old.redis)) !== '')
  const before = await current(old.redis)
  const young = await partsOn(t, {}, { tools: [note('New.')] })
  await until(async () => (await current(old.redis)) !== before)
  const now = await current(old.redis)
  const [mine, theirs] = [old.executor.catalog.find('test:note'), young.executor.catalog.find('test:note')]
  await young.parts.judge(theirs, now)
  await old.parts.judge(mine, before)
  await assert.rejects(old.parts.judge(mine, now), { code: 'SERVICE_UNAVAILABLE' })
  await assert.rejects(old.parts.judge(undefined, now), { code: 'SERVICE_UNAVAILABLE' })
  await assert.rejects(young.parts.judge(theirs, before), { code: 'CATALOG_STALE' })
  // A request that names no catalog asks for the current tool of this worker.
  await old.parts.judge(mine, '')
  await old.parts.judge(undefined, '')
  for (const hash of ['0'.repeat(64), 'x']) {
    await assert.rejects(old.parts.judge(mine, hash), { code: 'CATALOG_STALE' }, hash)
  }
})

test('published permissions follow the configuration, and gateways are notified', async (t) => {
  await emptied(t)
  let settings: RedisSettings | undefined
  const rig = await partsOn(
    t,
    {},
    {
      tools: [note('Notes.')],
      settings: (usual) => settings ?? usual,
      redis: { users: { 'discord:1': ['notes'] } },
    },
  )
  await rig.write('trace', '1')
  assert.deepEqual((await rig.parts.session('trace')).permissions, ['notes'])
  await until(async () => (await rig.redis.call(['EXISTS', 'sg:tools:catalog:current'])) === 1)
  const version = textOf(await rig.redis.call(['GET', 'sg:tools:catalog:current']))
  const catalog = (await rig.redis.call(['GET', `sg:tools:catalog:v${version}`])) as Buffer
  assert.deepEqual((decodeMsgpack(catalog) as { permissions: unknown }).permissions, { note: ['discord:1'] })
  settings = { ...rig.usual, users: {} }
  assert.deepEqual((await rig.parts.session('trace')).permissions, [])
})

test('without a catalog of its own the process publishes nothing, and no request is stale', async (t) => {
  await emptied(t)
  const rig = await partsOn(t, {}, { tools: [note('Notes.')], redis: { catalog: false } })
  await rig.parts.judge(rig.executor.catalog.find('test:note'), '')
  await rig.parts.stop()
  assert.equal(await rig.redis.call(['EXISTS', 'sg:tools:catalog:current']), 0)
})

function codeOf(error: unknown): string {
  return ToolError.is(error) ? error.code : String(error)
}
