import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, openBrokerSite, user } from '../../test/broker-site.fixture.ts'
import { pgliteDatabase } from '../../test/databases.fixture.ts'
import { redisForFile } from './transports/redis/redis.fixture.ts'

const file = redisForFile()

test('a dead letter belongs to the tenant of its sender; without an identified sender, to the tenant of the stream', async (t) => {
  const { url } = await file.server(t)
  const database = await pgliteDatabase(t)
  const redis = { identity: { principal: 'bots', tenant: 'acme', permissions: [] }, permissions: [] }
  const site = await openBrokerSite(t, { redisUrl: url, database, redis })
  const deadLettersOf = async (tenant: string): Promise<readonly (string | undefined)[]> => {
    const { items } = await site.service.deadLetters({}, { principal: 'operator', tenant, permissions: ['*'] })
    return items.map(({ code }) => code).sort()
  }
  await site.session('trace-blue', { ...user, guild_id: 'blue' })
  // These have no reply address, so each is a dead letter: two of known senders without the permission, two of unknown ones.
  await site.sendJson({ tool: 'test:admin', args: {} })
  await site.call({ tool_name: 'test:admin', ctx: { trace_id: 'trace-blue' }, reply_to: undefined })
  await site.call({ tool_name: 'test:admin', ctx: { trace_id: 'unknown' }, reply_to: undefined })
  await site.sendBytes(Buffer.from('what?'))
  await eventually(
    async () => ((await database.query('select from dead_letters')).length === 4 ? true : undefined),
    'four dead letters',
  )
  const found = {
    acme: await deadLettersOf('acme'),
    blue: await deadLettersOf('blue'),
    red: await deadLettersOf('red'),
  }
  assert.deepEqual(found, {
    acme: ['DENIED'],
    blue: ['DENIED'],
    red: ['PAYLOAD_INVALID', 'UNAUTHENTICATED'],
  })
})
