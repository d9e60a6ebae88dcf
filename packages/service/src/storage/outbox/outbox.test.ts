import assert from 'node:assert/strict'
import { addRows, someCall, someEnd, testOnDatabases } from '../calls.fixture.ts'
import type { Queries, Row } from '../databases/database.ts'
import { type OutboxItem, outboxRecords } from './outbox.ts'

const leaseMs = 60_000

/** Adds ended calls, each with an outbox item. */
async function ended(database: Queries, ...callIds: readonly string[]): Promise<void> {
  for (const callId of callIds) {
    await addRows(database, 'calls', [someCall(callId)])
    await addRows(database, 'results', [someEnd(callId)])
    await addRows(database, 'outbox', [item(callId)])
  }
}

function item(callId: string, given: Row = {}): Row {
  return { call_id: callId, tenant: 'acme', kind: 'callback', target: 'https://example.com', ...given }
}

function one(items: readonly OutboxItem[]): OutboxItem {
  const [first] = items
  assert.ok(first !== undefined && items.length === 1, `there are ${items.length}`)
  return first
}

const ids = (items: readonly OutboxItem[]): string[] => items.map(({ callId }) => callId)

testOnDatabases({
  'an item is claimed once, with its call, until it is sent': async ({ database }) => {
    const outbox = outboxRecords(database)
    await ended(database, 'c1')
    const claimed = one(await outbox.claim(10, leaseMs))
    assert.deepEqual(
      { ...claimed, id: 0 },
      {
        id: 0,
        callId: 'c1',
        tenant: 'acme',
        kind: 'callback',
        target: 'https://example.com',
        tries: 1,
        call: { kind: 'call', tool: 'math:add:1.0.0', state: 'ok' },
      },
    )
    assert.deepEqual(await outbox.claim(10, leaseMs), [])
    await outbox.sent([claimed])
    await database.query(`update outbox set lease_until = now() - interval '1 second'`)
    assert.deepEqual(await outbox.claim(10, leaseMs), [])
    const [row] = await database.query('select tries, sent_at is not null as sent, last_error from outbox')
    assert.deepEqual(row, { tries: 1, sent: true, last_error: null })
  },

  'a claim that runs after its notAfter claims nothing and counts no try': async ({ database }) => {
    await ended(database, 'c1')
    assert.deepEqual(await outboxRecords(database, () => 0).claim(10, leaseMs), [])
    const inTime = outboxRecords(database, () => Date.now() + 3_600_000)
    assert.equal(one(await inTime.claim(10, leaseMs)).tries, 1)
  },

  'a claim returns at most `max` items, those due longest first': async ({ database }) => {
    const outbox = outboxRecords(database)
    await ended(database, 'c1', 'c2', 'c3', 'later')
    await database.query(`update outbox set next_at = now() - interval '1 hour' where call_id = 'c3'`)
    await database.query(`update outbox set next_at = now() + interval '1 hour' where call_id = 'later'`)
    assert.deepEqual(ids(await outbox.claim(2, leaseMs)).sort(), ['c1', 'c3'])
    assert.deepEqual(ids(await outbox.claim(2, leaseMs)), ['c2'])
  },

  'an item whose lease expired is claimed again, and writes of the earlier claim are ignored': async ({ database }) => {
    const outbox = outboxRecords(database)
    await ended(database, 'c1')
    const before = one(await outbox.claim(1, leaseMs))
    await database.query(`update outbox set lease_until = now() - interval '1 millisecond'`)
    const after = one(await outbox.claim(1, leaseMs))
    assert.deepEqual([after.id, after.tries], [before.id, 2])
    await outbox.later(before, 0, 'late')
    await outbox.fail(before, 'late')
    await outbox.release(before)
    await outbox.sent([before])
    const [row] = await database.query(
      'select tries, sent_at, failed_at, last_error, lease_until > now() as held from outbox',
    )
    assert.deepEqual(row, { tries: 2, sent_at: null, failed_at: null, last_error: null, held: true })
    assert.deepEqual(await database.query('select id from dead_letters'), [])
    await outbox.sent([after])
    assert.deepEqual(await database.query('select sent_at is not null as sent from outbox'), [{ sent: true }])
  },

  'later() makes an item due after its delay': async ({ database }) => {
    const outbox = outboxRecords(database)
    await ended(database, 'c1')
    await outbox.later(one(await outbox.claim(1, leaseMs)), 3_600_000, 'down')
    assert.deepEqual(await outbox.claim(1, leaseMs), [])
    await database.query(`update outbox set next_at = next_at - interval '1 hour'`)
    const again = one(await outbox.claim(1, leaseMs))
    assert.equal(again.tries, 2)
    assert.deepEqual(await database.query('select last_error from outbox'), [{ last_error: 'down' }])
  },

  'postpone() makes an item due after its delay without counting a try': async ({ database }) => {
    const outbox = outboxRecords(database)
    await ended(database, 'c1')
    await outbox.postpone(one(await outbox.claim(1, leaseMs)), 3_600_000, 'closed')
    assert.deepEqual(await outbox.claim(1, leaseMs), [])
    await database.query(`update outbox set next_at = next_at - interval '1 hour'`)
    assert.equal(one(await outbox.claim(1, leaseMs)).tries, 1)
  },

  'release() makes an item due without counting a try': async ({ database }) => {
    const outbox = outboxRecords(database)
    await ended(database, 'c1')
    await outbox.release(one(await outbox.claim(1, leaseMs)))
    assert.equal(one(await outbox.claim(1, leaseMs)).tries, 1)
  },

  'fail() writes one dead letter for an item': async ({ database }) => {
    const outbox = outboxRecords(database)
    await ended(database, 'c1')
    const claimed = one(await outbox.claim(1, leaseMs))
    await outbox.fail(claimed, 'no listener')
    await outbox.fail(claimed, 'again')
    await outbox.sent([claimed])
    const deadLetters = await database.query(
      'select id, tenant, call_id, source, reason, code, tool, deliveries from dead_letters',
    )
    assert.deepEqual(deadLetters, [
      {
        id: `callback-${claimed.id}`,
        tenant: 'acme',
        call_id: 'c1',
        source: 'callback',
        reason: 'no listener',
        code: 'BACKEND_FAILED',
        tool: 'math:add:1.0.0',
        deliveries: 1,
      },
    ])
    assert.deepEqual(await outbox.claim(1, leaseMs), [])
  },

  'sent() marks only items of which the claim is the newest': async ({ database }) => {
    const outbox = outboxRecords(database)
    await ended(database, 'c1', 'c2', 'c3')
    const claimed = await outbox.claim(10, leaseMs)
    await database.query(`update outbox set tries = 9 where call_id = 'c2'`)
    await outbox.sent(claimed)
    const rows = await database.query('select call_id from outbox where sent_at is not null order by call_id')
    assert.deepEqual(rows, [{ call_id: 'c1' }, { call_id: 'c3' }])
    await outbox.sent([])
  },

  'a claim skips items of excluded targets': async ({ database }) => {
    const outbox = outboxRecords(database)
    await ended(database, 'c1', 'c2')
    await addRows(database, 'outbox', [item('c3', { target: `o'"\\ther` })])
    assert.deepEqual(ids(await outbox.claim(10, leaseMs, { targets: ['https://example.com', 'x'] })), ['c3'])
    assert.deepEqual(await outbox.claim(10, leaseMs, { targets: ['https://example.com'] }), [])
    assert.deepEqual(ids(await outbox.claim(10, leaseMs, { targets: [`o'"\\ther`] })), ['c1', 'c2'])
  },

  'an item whose call was removed is claimed without a call': async ({ database }) => {
    const outbox = outboxRecords(database)
    await addRows(database, 'outbox', [item('gone')])
    assert.equal(one(await outbox.claim(1, leaseMs)).call, undefined)
  },

  'concurrent claims return each item once': async ({ database }) => {
    const outbox = outboxRecords(database)
    await ended(database, ...Array.from({ length: 60 }, (_, index) => `c${index}`))
    const taken: string[] = []
    const taker = async (): Promise<void> => {
      for (;;) {
        const items = await outbox.claim(3, leaseMs)
        if (items.length === 0) return
        taken.push(...ids(items))
      }
    }
    await Promise.all(Array.from({ length: 8 }, taker))
    assert.equal(new Set(taken).size, taken.length)
    // A claim skips locked items, so that some can be left.
    taken.push(...ids(await outbox.claim(100, leaseMs)))
    assert.equal(new Set(taken).size, 60)
  },
})
