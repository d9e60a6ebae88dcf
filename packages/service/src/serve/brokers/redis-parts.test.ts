import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { createExecutor } from '@gantry/core'
import { createGatewayView } from '../../admit/gateway-names.ts'
import { encodeMsgpack } from '../../codecs/msgpack.ts'
import { brokerSettings } from '../../config/broker-settings.ts'
import { createSnapshots } from '../../execute/snapshots.ts'
import { createBus } from '../../stores/bus.ts'
import type { RedisConnections } from '../../transports/redis/connection.ts'
import { redisForFile } from '../../transports/redis/redis.fixture.ts'
import { startRedisParts } from './redis-parts.ts'

const servers = redisForFile()
const identity = { principal: 'owner', tenant: 'default', permissions: ['*'] }

/** Parts on a real Redis, and the commands by which sessions were asked for. */
async function partsOn(t: TestContext, more: Partial<RedisConnections> = {}) {
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
  const { redis: settings = assert.fail() } = brokerSettings({ redisUrl: 'redis://127.0.0.1:1', transport: 'redis' })
  const snapshots = createSnapshots({ executor: createExecutor({ tools: [] }), version: '1' })
  const parts = startRedisParts({
    ...{ redis: counted, settings: () => settings, snapshots, view: createGatewayView(identity), bus: createBus() },
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
  return { parts, redis, asked, write }
}

test('the sessions of messages that come together are read by one command, and each is its own', async (t) => {
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

test('a session that is missing, or whose key holds something else, is nobody’s, and those beside it are not touched', async (t) => {
  const { parts, redis, write } = await partsOn(t)
  await write('here', 'u-1')
  await redis.call(['RPUSH', 'sg:tools:session:list', 'x'])
  const all = await Promise.allSettled(['none', 'here', 'list', 'here'].map((name) => parts.session(name)))
  const became = all.map((one) => (one.status === 'fulfilled' ? one.value.principal : codeOf(one.reason)))
  assert.deepEqual(became, ['UNAUTHENTICATED', 'discord:u-1', 'UNAUTHENTICATED', 'discord:u-1'])
})

test('while Redis is away nobody is known, and nothing final is said', async (t) => {
  const away = new ToolError('STORE_UNAVAILABLE', 'Redis is away.')
  const { parts } = await partsOn(t, { call: () => Promise.reject(away) })
  const all = await Promise.allSettled([parts.session('one'), parts.session('two')])
  assert.deepEqual(
    all.map((one) => one.status === 'rejected' && codeOf(one.reason)),
    ['STORE_UNAVAILABLE', 'STORE_UNAVAILABLE'],
  )
})

function codeOf(error: unknown): string {
  return ToolError.is(error) ? error.code : String(error)
}
