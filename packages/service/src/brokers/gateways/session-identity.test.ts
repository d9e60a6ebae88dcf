import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { defineTool } from '@gantry/core'
import { createExecutor } from '@gantry/tools'
import { ExtData, encode } from '@msgpack/msgpack'
import type { RedisConnections } from '../transports/redis/connection.ts'
import { freshKey, redisForFile } from '../transports/redis/redis.fixture.ts'
import { createTextReader } from './redis-gateway.ts'
import { holdersOf, redisSessions, type SessionOptions, type Sessions } from './session-identity.ts'

const engine = redisForFile()
const signal = new AbortController().signal
const alice = { user_id: '1001', guild_id: '7', channel_id: '42', platform: 'discord' }

interface Rig {
  readonly redis: RedisConnections
  readonly prefix: string
  readonly sessions: Sessions
  /** Writes a record as the gateway does. */
  write(session: string, record: unknown, ...how: (string | number)[]): Promise<void>
}

async function rigOf(t: TestContext, options: Partial<SessionOptions> = {}): Promise<Rig> {
  const redis = await engine.open(t)
  const prefix = `${freshKey()}:`
  return {
    redis,
    prefix,
    sessions: redisSessions({ read: createTextReader(redis), prefix, tenant: 'main', ...options }),
    async write(session, record, ...how) {
      const bytes = Buffer.isBuffer(record) ? record : Buffer.from(encode(record))
      await redis.call(['SET', `${prefix}${session}`, bytes, ...how])
    },
  }
}

const refused = { code: 'UNAUTHENTICATED' }

test('a session gives the principal, the tenant and the roles of its platform, guild and channel', async (t) => {
  const { sessions, write } = await rigOf(t, { permissions: ['chat'], guilds: { 'discord:7': 'guild-seven' } })
  await write('trace-0001', alice, 'EX', 300)
  assert.deepEqual(await sessions.identify('trace-0001', signal), {
    principal: 'discord:1001',
    tenant: 'guild-seven',
    permissions: ['chat'],
    roles: ['platform:discord', 'guild:discord:7', 'channel:discord:42'],
  })
  await write('trace-0002', { user_id: 5, platform: 'matrix', guild_id: '', channel_id: null, user_aliases: ['x'] })
  const matrix = await sessions.identify('trace-0002', signal)
  assert.deepEqual([matrix.principal, matrix.tenant, matrix.roles], ['matrix:5', 'main', ['platform:matrix']])
})

test('a missing or expired session is unauthenticated', async (t) => {
  const { sessions, write, redis, prefix } = await rigOf(t)
  await assert.rejects(sessions.identify('trace-none', signal), refused)
  await write('trace-over', alice)
  assert.equal((await sessions.identify('trace-over', signal)).principal, 'discord:1001')
  await redis.call(['PEXPIRE', `${prefix}trace-over`, 1])
  while ((await redis.call(['EXISTS', `${prefix}trace-over`])) !== 0);
  await assert.rejects(sessions.identify('trace-over', signal), refused)
})

test('a record that cannot be decoded, or names no user, is unauthenticated', async (t) => {
  const { sessions, write, redis, prefix } = await rigOf(t)
  const records: readonly (readonly [string, unknown])[] = [
    ['text', Buffer.from('{"user_id":"1001","platform":"discord"}')],
    ['cut off', Buffer.from(encode(alice)).subarray(0, -1)],
    ['more behind', Buffer.concat([encode(alice), Buffer.of(0xc0)])],
    ['a list', [alice]],
    ['a number', 7],
    ['no user', { ...alice, user_id: undefined }],
    ['an empty user', { ...alice, user_id: '' }],
    ['a user of lists', { ...alice, user_id: ['1001'] }],
    ['a user with a line end', { ...alice, user_id: '1001\nadmin' }],
    ['a user with a direction mark', { ...alice, user_id: '1001\u202e' }],
    ['a very long user', { ...alice, user_id: '1'.repeat(201) }],
    ['no platform', { ...alice, platform: null }],
    ['a platform that holds a user', { ...alice, platform: 'discord:1001', user_id: 'x' }],
    ['a guild of maps', { ...alice, guild_id: { $ne: 1 } }],
    ['a channel with a space', { ...alice, channel_id: '4 2' }],
    ['an extension', { ...alice, user_id: new ExtData(1, new Uint8Array(2)) }],
    ['a bomb', Buffer.from('dfffffffff', 'hex')],
    ['too much', { ...alice, note: 'x'.repeat(20_000) }],
    ['a prototype', Buffer.from([0x82, ...encode('__proto__'), ...encode(alice), ...encode('a'), 1])],
  ]
  for (const [index, [what, record]] of records.entries()) {
    await write(`trace-${index}`, record)
    await assert.rejects(sessions.identify(`trace-${index}`, signal), refused, what)
  }
  await redis.call(['RPUSH', `${prefix}trace-list`, Buffer.from(encode(alice))])
  await redis.call(['HSET', `${prefix}trace-hash`, 'user_id', '1001'])
  for (const session of ['trace-list', 'trace-hash']) await assert.rejects(sessions.identify(session, signal), refused)
  await write('trace-good', { ...alice, note: 'x'.repeat(4_000) })
  assert.equal((await sessions.identify('trace-good', signal)).principal, 'discord:1001')
})

test('a malformed session name is refused before it reaches Redis, even if such a key exists', async (t) => {
  const { redis, prefix, write } = await rigOf(t)
  const asked: unknown[] = []
  const read: SessionOptions['read'] = (key, last) => {
    asked.push(key)
    return createTextReader(redis)(key, last)
  }
  const sessions = redisSessions({ read, prefix, tenant: 'main' })
  const names = [
    '',
    '*',
    'trace-*',
    'trace-?',
    'trace 1',
    'trace\n1',
    'trace\r\nDEL x',
    '../x',
    'ｔrace',
    'x'.repeat(129),
  ]
  for (const name of names) {
    await write(name, alice)
    await assert.rejects(sessions.identify(name, signal), refused, JSON.stringify(name))
  }
  assert.deepEqual(asked, [])
  await write('trace-1', alice)
  await sessions.identify('trace-1', signal)
  assert.deepEqual(asked, [`${prefix}trace-1`])
})

test('a guild has its tenant on its own platform only, and a user of another guild is refused where there is no default tenant', async (t) => {
  const guilds = { 'discord:7': 'seven' }
  const { redis, prefix, write } = await rigOf(t)
  const sessions = redisSessions({ read: createTextReader(redis), prefix, guilds })
  await write('trace-1', alice)
  assert.equal((await sessions.identify('trace-1', signal)).tenant, 'seven')
  for (const other of [{ platform: 'matrix' }, { guild_id: '8' }, { guild_id: '' }, { guild_id: 'constructor' }]) {
    await write('trace-2', { ...alice, ...other })
    await assert.rejects(sessions.identify('trace-2', signal), refused, JSON.stringify(other))
  }
})

test('permissions come from the configuration by principal, and the executor enforces them', async (t) => {
  const holders = { shell: ['discord:1001'], 'files:*': '*', admin: ['matrix:1001'] } as const
  const { sessions, write } = await rigOf(t, { holders })
  await write('trace-alice', alice)
  await write('trace-bob', { ...alice, user_id: '1002' })
  const tool = defineTool({
    namespace: 'ops',
    name: 'shell',
    version: '1.0.0',
    description: 'Runs it.',
    effect: 'read',
    permissions: ['shell', 'files:read'],
    inputSchema: { type: 'object' },
    run: () => 'ran',
  })
  const executor = createExecutor({ tools: [tool] })
  t.after(() => executor.close({ graceMs: 1 }))
  const run = async (session: string) =>
    executor.run('ops:shell', {}, { identity: await sessions.identify(session, signal) })
  assert.equal((await run('trace-alice')).status, 'ok')
  assert.equal((await run('trace-bob')).error?.code, 'DENIED')
  assert.deepEqual(holdersOf(tool.tool, { holders }), ['discord:1001'])
  assert.deepEqual(holdersOf({ permissions: ['shell', 'admin'] }, { holders }), [])
  assert.deepEqual(holdersOf({ permissions: ['unheld'] }, { holders }), [])
  assert.equal(holdersOf({ permissions: ['files:read'] }, { holders }), undefined)
  assert.equal(holdersOf({ permissions: ['shell'] }, { holders, permissions: ['*'] }), undefined)
  assert.equal(holdersOf({}, { holders }), undefined)
})

test('a holder without a platform is refused, because user ids are unique only within a platform', () => {
  const read = async () => new Uint8Array()
  assert.throws(() => redisSessions({ read, holders: { shell: ['1001'] } }), { code: 'CONFIG_INVALID' })
  assert.ok(redisSessions({ read, holders: { shell: ['discord:1001'] } }))
})

test('while Redis is unavailable no sender is identified, and none is refused for good', async (t) => {
  const { sessions, write } = await rigOf(t)
  const server = await engine.server(t)
  await write('trace-1', alice)
  server.kill()
  try {
    await assert.rejects(sessions.identify('trace-1', signal), { code: 'STORE_UNAVAILABLE', retryable: true })
  } finally {
    await server.restart()
  }
})

test('an aborted lookup of a session rejects', async (t) => {
  const { sessions, write } = await rigOf(t)
  await write('trace-1', alice)
  await assert.rejects(sessions.identify('trace-1', AbortSignal.abort()), { code: 'CANCELLED' })
})
