import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { pgliteDatabase, postgresDatabase } from '../../../test/databases.fixture.ts'
import { refuseMessages } from './dead-letters.ts'

const realDatabase = async (t: TestContext) => (await postgresDatabase(t)).database

for (const [engine, open] of Object.entries({ pglite: pgliteDatabase, postgres: realDatabase })) {
  test(`${engine}: a refused message becomes one dead letter, and its replies are posted to the outbox`, async (t) => {
    const database = await open(t)
    const refused = {
      tenant: 't',
      source: 'calls',
      position: '0/7',
      deliveries: 2,
      code: 'PAYLOAD_INVALID' as const,
      reason: 'Odd\0 \ud800 text.',
      tool: 'x'.repeat(1_000),
      dead: { payload: 'as far as it\0 could be read' },
      messages: [{ target: 'answers', body: '{}' }],
    }
    await refuseMessages(database, [refused, { ...refused, position: '0/8', messages: [] }])
    await refuseMessages(database, [refused])
    await refuseMessages(database, [])
    const deadLetters = await database.query('select source, reason, code, tool, payload, deliveries from dead_letters')
    assert.equal(deadLetters.length, 2)
    assert.deepEqual(deadLetters[0], {
      source: 'calls',
      code: 'PAYLOAD_INVALID',
      deliveries: 2,
      tool: 'x'.repeat(300),
      reason: 'Odd\ufffd \ufffd text.',
      payload: 'as far as it\ufffd could be read',
    })
    const posted = await database.query('select call_id, kind, target, body from outbox')
    const message = { call_id: null, kind: 'message', target: 'answers', body: '{}' }
    assert.deepEqual(posted, [message, message])
  })

  test(`${engine}: a refusal that is only answered writes no dead letter`, async (t) => {
    const database = await open(t)
    const one = { tenant: 't', source: 'calls', position: '1', deliveries: 1, code: 'TOOL_NOT_FOUND' as const }
    await refuseMessages(database, [{ ...one, reason: 'No.', messages: [{ target: 'answers', body: 'b' }] }])
    assert.deepEqual(await database.query('select id from dead_letters'), [])
    assert.deepEqual(await database.query('select body from outbox'), [{ body: 'b' }])
  })
}
