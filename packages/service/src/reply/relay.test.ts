import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { addRows, someCall, someEnd, testOnDatabases } from '../storage/calls.fixture.ts'
import type { Database } from '../storage/databases/database.ts'
import { type Outbox, type OutboxItem, outboxRecords } from '../storage/outbox/outbox.ts'
import { pauseAfter, type RelayOptions, type Send, startRelay } from './relay.ts'
import { openCallNotifications } from './waiters.ts'

/** Long enough that a test without a notification fails. */
const never = 2 ** 30

/** Adds an item of an ended call to the outbox, with the notification of its end. */
async function put(database: Database, ...callIds: readonly string[]): Promise<void> {
  for (const callId of callIds) {
    await addRows(database, 'calls', [someCall(callId)])
    await addRows(database, 'results', [someEnd(callId)])
    await addRows(database, 'outbox', [{ call_id: callId, tenant: 'acme', kind: 'callback', target: 'https://a.b' }])
  }
  await database.query(`select pg_notify('gantry_outbox', '')`)
}

/** A relay that is stopped with the test. */
async function relay(t: TestContext, database: Database, options: Partial<RelayOptions> & { readonly send: Send }) {
  const notifications = await openCallNotifications(database)
  const started = startRelay({
    outbox: outboxRecords(database),
    notifications: notifications,
    pollMs: never,
    ...options,
  })
  t.after(async () => {
    await started.stop(AbortSignal.abort())
    await notifications.close()
  })
  return started
}

/** Resolves when every item is sent or failed. */
async function settled(database: Database): Promise<void> {
  for (;;) {
    const left = await database.query('select id from outbox where sent_at is null and failed_at is null')
    if (left.length === 0) return
  }
}

/** Makes delayed items due now. */
async function hurry(database: Database): Promise<void> {
  await database.query('update outbox set next_at = now() where sent_at is null')
  await database.query(`select pg_notify('gantry_outbox', '')`)
}

const sent = { kind: 'sent' } as const
const again = { kind: 'again', error: 'down' } as const

testOnDatabases({
  'the relay sends the items of the outbox, and those that arrive while it waits': async ({ database }, t) => {
    const seen: string[] = []
    await put(database, 'before')
    const first = Promise.withResolvers<void>()
    await relay(t, database, {
      send: async ({ callId }) => {
        seen.push(callId)
        first.resolve()
        return sent
      },
    })
    await first.promise
    await put(database, 'after')
    await settled(database)
    assert.deepEqual(seen, ['before', 'after'])
  },

  'the relay polls the outbox when no notification arrives': async ({ database }, t) => {
    await relay(t, database, { send: async () => sent, pollMs: 20, notifications: { onOutbox: () => () => {} } })
    await put(database, 'c1')
    await settled(database)
  },

  'the relay retries a failed send with growing delays, then writes a dead letter': async ({ database }, t) => {
    let tries = 0
    const delays: number[] = []
    const outbox = outboxRecords(database)
    await put(database, 'c1')
    await relay(t, database, {
      tries: 3,
      random: () => 0,
      outbox: {
        ...outbox,
        async later(item, delayMs, error) {
          delays.push(delayMs)
          await outbox.later(item, delayMs, error)
          await hurry(database)
        },
      },
      send: async (item) => {
        tries += 1
        assert.equal(item.tries, tries)
        return again
      },
    })
    await settled(database)
    assert.equal(tries, 3)
    assert.deepEqual(delays, [pauseAfter(1, () => 0), pauseAfter(2, () => 0)])
    const deadLetters = await database.query('select call_id, source, reason, deliveries from dead_letters')
    assert.deepEqual(deadLetters, [{ call_id: 'c1', source: 'callback', reason: 'down', deliveries: 3 }])
  },

  'the relay writes a dead letter at once when a send can never succeed': async ({ database }, t) => {
    await put(database, 'c1')
    await relay(t, database, { send: async () => ({ kind: 'never', error: 'wants no more' }) })
    await settled(database)
    assert.deepEqual(await database.query('select reason, deliveries from dead_letters'), [
      { reason: 'wants no more', deliveries: 1 },
    ])
  },

  'the relay respects the retry time of a receiver, up to a day': async ({ database }, t) => {
    await put(database, 'soon', 'far')
    await relay(t, database, {
      send: async ({ callId }) => ({ ...again, afterMs: callId === 'soon' ? 7_200_000 : 1e12 }),
    })
    const due = `select call_id, round(extract(epoch from next_at - now()) / 3600)::integer as hours from outbox
      where last_error is not null and lease_until is null order by call_id`
    let rows = await database.query(due)
    while (rows.length < 2) rows = await database.query(due)
    assert.deepEqual(rows, [
      { call_id: 'far', hours: 24 },
      { call_id: 'soon', hours: 2 },
    ])
  },

  'the relay sends at most its concurrency at a time, and to one target only a part of it': async ({ database }, t) => {
    await put(database, ...Array.from({ length: 60 }, (_, index) => `c${index}`))
    await database.query(`update outbox set target = call_id where id % 2 = 0`)
    const now: string[] = []
    const most = { all: 0, one: 0 }
    await relay(t, database, {
      concurrency: 12,
      async send({ target }) {
        now.push(target)
        most.all = Math.max(most.all, now.length)
        most.one = Math.max(most.one, now.filter((other) => other === 'https://a.b').length)
        await new Promise((resolve) => setTimeout(resolve, 20))
        now.splice(now.indexOf(target), 1)
        return sent
      },
    })
    await settled(database)
    assert.ok(most.all <= 12 && most.one <= 5, JSON.stringify(most))
  },

  'a tenant with many slow targets leaves slots for the callbacks of others': async ({ database }, t) => {
    await put(database, ...Array.from({ length: 30 }, (_, index) => `c${index}`))
    await database.query(`update outbox set target = call_id`)
    const stuck = Promise.withResolvers<typeof sent>()
    const other = Promise.withResolvers<void>()
    let slow = 0
    await relay(t, database, {
      concurrency: 8,
      send({ tenant }) {
        if (tenant === 'acme') {
          slow += 1
          return stuck.promise
        }
        other.resolve()
        return Promise.resolve(sent)
      },
    })
    while (slow < 4) await new Promise((resolve) => setImmediate(resolve))
    await addRows(database, 'calls', [someCall('theirs', { tenant: 'other' })])
    await addRows(database, 'results', [someEnd('theirs')])
    await addRows(database, 'outbox', [{ call_id: 'theirs', tenant: 'other', kind: 'callback', target: 'https://c.d' }])
    await database.query(`select pg_notify('gantry_outbox', '')`)
    await other.promise
    assert.ok(slow <= 6, `${slow}`)
    stuck.resolve(sent)
    await settled(database)
  },

  'two concurrent relays send each item, and none twice': async ({ database }, t) => {
    const seen: string[] = []
    const send: Send = async ({ callId }) => {
      seen.push(callId)
      await new Promise((resolve) => setImmediate(resolve))
      return sent
    }
    await relay(t, database, { send })
    await relay(t, database, { send })
    const ids = Array.from({ length: 80 }, (_, index) => `c${index}`)
    await put(database, ...ids)
    await settled(database)
    assert.deepEqual(seen.toSorted(), ids.toSorted())
  },

  'a stopped relay finishes the sends in flight, and claims nothing more': async ({ database }, t) => {
    const begun = Promise.withResolvers<void>()
    const go = Promise.withResolvers<void>()
    await put(database, 'c1', 'c2')
    const started = await relay(t, database, {
      concurrency: 1,
      async send() {
        begun.resolve()
        await go.promise
        return sent
      },
    })
    await begun.promise
    const stopped = started.stop()
    go.resolve()
    await stopped
    const rows = await database.query('select sent_at is not null as sent, tries from outbox order by id')
    assert.deepEqual(rows, [
      { sent: true, tries: 1 },
      { sent: false, tries: 0 },
    ])
  },

  'an aborted send is released at once and does not count as an attempt': async ({ database }, t) => {
    const begun = Promise.withResolvers<void>()
    await put(database, 'c1')
    const started = await relay(t, database, {
      send: (_, signal) => {
        begun.resolve()
        return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      },
    })
    await begun.promise
    await started.stop(AbortSignal.abort())
    const rows = await database.query('select tries, lease_until, last_error from outbox')
    assert.deepEqual(rows, [{ tries: 0, lease_until: null, last_error: null }])
  },

  'the relay writes a dead letter for an item whose attempts were all lost with their relays': async (
    { database },
    t,
  ) => {
    await put(database, 'c1')
    await database.query(`update outbox set tries = 12, lease_until = now() - interval '1 second'`)
    await relay(t, database, { send: async () => assert.fail('It must not be sent.') })
    await settled(database)
    const [deadLetter] = await database.query('select reason, deliveries from dead_letters')
    assert.deepEqual(deadLetter, { reason: 'The relays that tried to send it were lost.', deliveries: 13 })
  },

  'a sender that throws affects only its item': async ({ database }, t) => {
    const failures: unknown[] = []
    await put(database, 'bad', 'good')
    await relay(t, database, {
      pollMs: 5,
      tries: 2,
      send: async ({ callId }) => (callId === 'bad' ? Promise.reject(new Error('broken')) : sent),
      failed(error) {
        failures.push(error)
        // Stands for an expired lease.
        void database.query(`update outbox set lease_until = null where call_id = 'bad'`)
      },
    })
    await settled(database)
    assert.deepEqual(await database.query('select call_id from dead_letters'), [{ call_id: 'bad' }])
    assert.equal(failures.length, 2)
  },
})

/** An outbox that is unavailable the given number of times. */
function unavailable(times: number, calls: string[], items: OutboxItem[]): Outbox {
  const step = async (name: string): Promise<void> => {
    calls.push(name)
    if (times-- > 0) throw new ToolError('STORE_UNAVAILABLE', 'unavailable')
  }
  return {
    async claim() {
      await step('claim')
      return items.splice(0)
    },
    sent: () => step('sent'),
    later: () => step('later'),
    postpone: () => step('postpone'),
    release: () => step('release'),
    fail: () => step('fail'),
  }
}

const someItem: OutboxItem = { id: 1, callId: 'c1', tenant: 'acme', kind: 'callback', target: 'x', tries: 1 }

test('an item whose broker is unavailable is postponed, however often it was tried', async () => {
  const calls: string[] = []
  const started = startRelay({
    outbox: unavailable(0, calls, [{ ...someItem, tries: 12 }]),
    notifications: { onOutbox: () => () => {} },
    pollMs: 1,
    send: async () => ({ kind: 'again', error: 'The broker is unavailable.', unavailable: true }),
  })
  while (!calls.includes('postpone')) await new Promise((resolve) => setTimeout(resolve, 1))
  await started.stop()
  assert.equal(calls.includes('fail') || calls.includes('later'), false)
})

test('the relay retries when its database is unavailable', async () => {
  const calls: string[] = []
  const failures: unknown[] = []
  const done = Promise.withResolvers<void>()
  const started = startRelay({
    outbox: unavailable(2, calls, [someItem]),
    notifications: { onOutbox: () => () => {} },
    pollMs: 1,
    failed: (error) => failures.push(error),
    send: async () => {
      done.resolve()
      return sent
    },
  })
  await done.promise
  await started.stop()
  assert.deepEqual(calls.slice(0, 4), ['claim', 'claim', 'claim', 'sent'])
  assert.equal(failures.length, 2)
})

test('the relay marks a sent item again after an outage of the database, rather than sending it again', async () => {
  const calls: string[] = []
  let sends = 0
  const items = [someItem]
  const outbox = unavailable(0, calls, items)
  let refusals = 2
  const marked = Promise.withResolvers<void>()
  const started = startRelay({
    outbox: {
      ...outbox,
      async sent() {
        if (refusals-- > 0) throw new ToolError('STORE_UNAVAILABLE', 'unavailable')
        marked.resolve()
      },
    },
    notifications: { onOutbox: () => () => {} },
    pollMs: 1,
    random: () => 0,
    send: async () => {
      sends += 1
      return sent
    },
  })
  await marked.promise
  await started.stop()
  assert.equal(sends, 1)
})

test('delays grow from a second to an hour, and half of each is random', () => {
  const pauses = Array.from({ length: 12 }, (_, index) => pauseAfter(index + 1, () => 1) / 1_000)
  assert.deepEqual(pauses, [1, 3, 9, 27, 81, 243, 729, 2_187, 3_600, 3_600, 3_600, 3_600])
  assert.equal(
    pauseAfter(1, () => 0),
    500,
  )
  assert.equal(
    pauseAfter(1_000_000, () => 1),
    3_600_000,
  )
})
