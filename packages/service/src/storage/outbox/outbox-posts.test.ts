import assert from 'node:assert/strict'
import { sqlCallStore } from '../calls/sql.ts'
import { addRows, someCall, someResult, testOnDatabases } from '../calls.fixture.ts'
import type { Database, Row } from '../databases/database.ts'
import { outboxPosts, outboxRecords, type PostedItem } from './outbox.ts'

function message(given: Partial<PostedItem> = {}): PostedItem {
  return { callId: 'c1', tenant: 'acme', kind: 'message', target: 'answers', body: 'hello', ...given }
}

/** Adds running calls with fence 1. */
async function queued(database: Database, ...callIds: readonly string[]): Promise<void> {
  for (const callId of callIds) {
    await addRows(database, 'calls', [someCall(callId)])
    await addRows(database, 'queue', [{ call_id: callId, tenant: 'acme', fence: 1 }])
  }
}

async function end(database: Database, callId: string): Promise<void> {
  const result = someResult({ callId })
  const text = JSON.stringify(result)
  const ended = await sqlCallStore(database).finish([{ callId, fence: 1, result, text, bytes: text.length }])
  assert.deepEqual(ended, [callId])
}

function rows(database: Database): Promise<readonly Row[]> {
  return database.query(`
    select call_id, item, body, case when next_at = 'infinity' then 'waits' else 'due' end as state
    from outbox order by id`)
}

/** The number of `gantry_outbox` notifications during `work`. */
async function notifications(database: Database, work: () => Promise<unknown>): Promise<number> {
  let count = 0
  const marked = Promise.withResolvers<void>()
  const unsubscribe = await database.listen('gantry_outbox', (payload) => {
    if (payload === 'mark') marked.resolve()
    else count += 1
  })
  await work()
  await database.query(`select pg_notify('gantry_outbox', 'mark')`)
  await marked.promise
  await unsubscribe()
  return count
}

testOnDatabases({
  'posted items are due at once, in order, and relays are notified once': async ({ database }) => {
    const { post } = outboxPosts(database)
    const { callId: _none, ...unbound } = message({ body: 'about no call' })
    const items = [message({ body: 'one' }), message({ callId: 'c2', body: `t'"\\wo` }), unbound]
    assert.equal(await notifications(database, () => post(items)), 1)
    const claimed = await outboxRecords(database).claim(10, 60_000)
    const shown = claimed.map(({ tenant, kind, target }) => [tenant, kind, target])
    assert.deepEqual(shown, Array(3).fill(['acme', 'message', 'answers']))
    assert.deepEqual(await rows(database), [
      { call_id: 'c1', item: null, body: 'one', state: 'due' },
      { call_id: 'c2', item: null, body: `t'"\\wo`, state: 'due' },
      { call_id: null, item: null, body: 'about no call', state: 'due' },
    ])
    assert.equal(await notifications(database, () => post([])), 0)
  },

  'an item of a call is stored once, as first posted, and a repeat does not notify relays': async ({ database }) => {
    const { post } = outboxPosts(database)
    const first = message({ item: 'send-1', body: 'first' })
    await post([first, { ...first, body: 'again' }, message({ item: 'send-2' })])
    const again = [
      { ...first, body: 'later' },
      { ...message({ item: 'send-2' }), waits: true },
    ]
    assert.equal(await notifications(database, () => post(again)), 0)
    await post([message({ callId: 'c2', item: 'send-1' }), message(), message()])
    const kept = (await rows(database)).map(({ call_id, item, body }) => [call_id, item, body])
    assert.deepEqual(kept, [
      ['c1', 'send-1', 'first'],
      ['c1', 'send-2', 'hello'],
      ['c2', 'send-1', 'hello'],
      ['c1', null, 'hello'],
      ['c1', null, 'hello'],
    ])
  },

  'a sent item is not posted again under its name': async ({ database }) => {
    const { post } = outboxPosts(database)
    const outbox = outboxRecords(database)
    await post([message({ item: 'send-1' })])
    await outbox.sent(await outbox.claim(1, 60_000))
    await post([message({ item: 'send-1' })])
    assert.deepEqual(await outbox.claim(1, 60_000), [])
  },

  'an item that waits for its call becomes due when the call ends': async ({ database }) => {
    const { post, wakeWaiting } = outboxPosts(database)
    const outbox = outboxRecords(database)
    await queued(database, 'c1', 'c2')
    const waiting = ['c1', 'c2'].map((callId) => message({ callId, kind: 'reply', body: '{}', waits: true }))
    assert.equal(await notifications(database, () => post(waiting)), 0)
    assert.equal(await wakeWaiting(10), 0)
    assert.deepEqual(await outbox.claim(10, 60_000), [])
    await end(database, 'c1')
    const claimed = await outbox.claim(10, 60_000)
    assert.deepEqual(
      claimed.map(({ callId }) => callId),
      ['c1'],
    )
    await post([message({ kind: 'reply', body: 'late', waits: true })])
    assert.equal((await outbox.claim(10, 60_000)).length, 1)
  },

  'wakeWaiting() finds an item that was posted while its call ended': async ({ database }, t) => {
    if (database.kind === 'pglite') return t.skip('PGlite runs one statement at a time')
    await queued(database, 'c1')
    await database.transaction(async (open) => {
      await outboxPosts(open).post([message({ waits: true })])
      await end(database, 'c1')
    })
    assert.equal((await rows(database))[0]?.state, 'waits')
    assert.equal(await outboxPosts(database).wakeWaiting(10), 1)
    assert.equal((await rows(database))[0]?.state, 'due')
  },

  'wakeWaiting() makes items of ended calls due in batches, and notifies relays': async ({ database }) => {
    const { post, wakeWaiting } = outboxPosts(database)
    await queued(database, 'c1', 'c2', 'c3', 'open')
    await post(['c1', 'c2', 'c3', 'open'].map((callId) => message({ callId, waits: true })))
    await database.query(`delete from queue where call_id <> 'open'`)
    const counts: number[] = []
    const look = async (): Promise<void> => void counts.push(await wakeWaiting(2))
    assert.equal(await notifications(database, look), 1)
    await look()
    assert.equal(await notifications(database, look), 0)
    assert.deepEqual(counts, [2, 1, 0])
    const states = (await rows(database)).map(({ call_id, state }) => `${call_id} ${state}`)
    assert.deepEqual(states.toSorted(), ['c1 due', 'c2 due', 'c3 due', 'open waits'])
  },

  'unanswered() makes a reply due for relays, unless a relay has already claimed it': async ({ database }) => {
    const { unanswered } = outboxPosts(database)
    const answer = { tenant: 'acme', kind: 'reply', target: 'answers', lease_until: '2999-01-01' }
    await addRows(database, 'outbox', [
      { call_id: 'c1', tries: 1, ...answer },
      { call_id: 'c2', tries: 1, ...answer },
      { call_id: 'c3', tries: 2, ...answer },
    ])
    assert.equal(await notifications(database, () => unanswered(['c1', 'c3'])), 1)
    assert.equal(await notifications(database, () => unanswered([])), 0)
    const claimed = await outboxRecords(database).claim(10, 60_000)
    assert.deepEqual(
      claimed.map(({ callId, tries }) => [callId, tries]),
      [['c1', 2]],
    )
  },

  'answered() removes the reply of the call and no other item': async ({ database }) => {
    const { post, answered } = outboxPosts(database)
    for (const callId of ['c1', 'c2']) {
      await addRows(database, 'outbox', [{ call_id: callId, tenant: 'acme', kind: 'reply', target: 'answers' }])
    }
    await addRows(database, 'outbox', [{ call_id: 'c1', tenant: 'acme', kind: 'callback', target: 'https://x' }])
    await post([message({ kind: 'reply', body: 'another asker' }), message({ item: 'send-1' })])
    await answered(['c1', `c'3`])
    await answered([])
    const left = await database.query(`select call_id, kind, body from outbox order by call_id, kind`)
    assert.deepEqual(left, [
      { call_id: 'c1', kind: 'callback', body: null },
      { call_id: 'c1', kind: 'message', body: 'hello' },
      { call_id: 'c1', kind: 'reply', body: 'another asker' },
      { call_id: 'c2', kind: 'reply', body: null },
    ])
  },
})
