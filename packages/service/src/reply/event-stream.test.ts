import assert from 'node:assert/strict'
import { text } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import type { StreamEvent } from '@gantry/contract'
import { callViews } from '../storage/call-views.ts'
import { addRows, type Stores, someCall, someEnd, someResult, testOnDatabases } from '../storage/calls.fixture.ts'
import type { Database } from '../storage/databases/database.ts'
import { type EventRecords, eventId, eventRecords } from '../storage/events.ts'
import { someError } from '../worker/worker.fixture.ts'
import { callEvents } from './event-stream.ts'
import { type CallNotifications, openCallNotifications } from './waiters.ts'

interface Parts {
  readonly records: EventRecords
  readonly news: CallNotifications
  read(afterId?: number, more?: Partial<Parameters<typeof callEvents>[0]>): AsyncGenerator<StreamEvent, void>
  /** Reports of the call, by number. */
  report(from: number, to: number): Promise<void>
  end(): Promise<void>
}

/** A call that a worker executes, and its readers. */
async function parts({ database, store }: Stores, t: TestContext): Promise<Parts> {
  await addRows(database, 'calls', [someCall('c1')])
  await addRows(database, 'queue', [{ call_id: 'c1', tenant: 'acme', fence: 1 }])
  const records = eventRecords(database)
  const content = async (digest: string, signal: AbortSignal) => store.read(digest, undefined, signal)
  const views = callViews(database, { content })
  const notifications = await openCallNotifications(database)
  t.after(() => notifications.close())
  return {
    records,
    news: notifications,
    read: (afterId = 0, more = {}) =>
      callEvents({
        records,
        views,
        notifications: notifications,
        callId: 'c1',
        tenant: 'acme',
        afterId,
        signal: t.signal,
        ...more,
      }),
    async report(from, to) {
      const numbers = Array.from({ length: to - from + 1 }, (_, index) => from + index)
      const event = (n: number) => JSON.stringify({ kind: 'progress', progress: n })
      await records.append(numbers.map((n) => ({ callId: 'c1', fence: 1, id: eventId(1, n), event: event(n) })))
    },
    end: () => endCall(database),
  }
}

async function endCall(database: Database): Promise<void> {
  await addRows(database, 'results', [someEnd('c1')])
  await database.query(`delete from queue where call_id = 'c1'`)
  await database.query(`select pg_notify('gantry_done', 'c1')`)
}

async function idsOf(events: AsyncIterable<StreamEvent>): Promise<number[]> {
  return (await all(events)).map(({ id }) => id)
}

async function all(events: AsyncIterable<StreamEvent>): Promise<StreamEvent[]> {
  const found: StreamEvent[] = []
  for await (const event of events) found.push(event)
  return found
}

const endId = 1_999_999

testOnDatabases({
  'the events of a call that has ended are read to the end, over pages': async (stores, t) => {
    const { read, report, end } = await parts(stores, t)
    await report(1, 250)
    await end()
    const events = await all(read())
    assert.deepEqual(
      events.map(({ id }) => id),
      [...Array.from({ length: 250 }, (_, n) => eventId(1, n + 1)), endId],
    )
    assert.deepEqual(events.at(-1), { kind: 'done', result: someResult({ callId: 'c1' }), id: endId, callId: 'c1' })
  },

  'a page that is exactly full is not taken for the end': async (stores, t) => {
    const { read, report, end } = await parts(stores, t)
    await report(1, 100)
    await end()
    assert.equal((await idsOf(read())).length, 101)
  },

  'a reader resumes after any id, up to the last': async (stores, t) => {
    const { read, report, end } = await parts(stores, t)
    await report(1, 5)
    await end()
    assert.deepEqual(await idsOf(read(eventId(1, 3))), [1_000_004, 1_000_005, endId])
    assert.deepEqual(await idsOf(read(eventId(1, 5))), [endId])
    assert.deepEqual(await idsOf(read(endId)), [])
    assert.deepEqual(await idsOf(read(Number.MAX_SAFE_INTEGER)), [])
  },

  'readers get events and the end as they arrive, each event once': async (stores, t) => {
    const { read, report, end } = await parts(stores, t)
    const readers = [0, 0, eventId(1, 2)].map((afterId) => read(afterId))
    const first = readers.map((reader) => reader.next())
    await report(1, 3)
    const received = await Promise.all(first)
    assert.deepEqual(
      received.map(({ value }) => value?.id),
      [1_000_001, 1_000_001, 1_000_003],
    )
    const rest = readers.map(idsOf)
    await report(4, 4)
    await end()
    assert.deepEqual(await Promise.all(rest), [
      [1_000_002, 1_000_003, 1_000_004, endId],
      [1_000_002, 1_000_003, 1_000_004, endId],
      [1_000_004, endId],
    ])
  },

  'a reader polls when no notification arrives': async (stores, t) => {
    const { read, report, end } = await parts(stores, t)
    const reading = idsOf(read(0, { notifications: { onCall: () => () => {} } }))
    await report(1, 1)
    await end()
    assert.deepEqual(await reading, [1_000_001, endId])
  },

  'a failed call ends with its error': async (stores, t) => {
    const { read } = await parts(stores, t)
    const error = someError({ code: 'BACKEND_FAILED' })
    const result = someResult({ callId: 'c1', status: 'failed', error })
    const row = { status: 'failed', result: JSON.stringify(result), fence: 7 }
    await addRows(stores.database, 'results', [someEnd('c1', row)])
    assert.deepEqual(await all(read()), [{ kind: 'error', error, result, id: 7_999_999, callId: 'c1' }])
  },

  'a result that is stored as an artifact is read from it, and a missing artifact is an error': async (stores, t) => {
    const { read } = await parts(stores, t)
    const result = someResult({ callId: 'c1', output: 'x'.repeat(10_000) })
    const { digest } = await stores.store.put(Buffer.from(JSON.stringify(result)), { maxBytes: 1e6, signal: t.signal })
    assert.ok((await text(await stores.store.read(digest, undefined, t.signal))).length > 10_000)
    await addRows(stores.database, 'results', [someEnd('c1', { result: null, result_ref: digest })])
    const [end] = await all(read())
    assert.deepEqual(end?.kind === 'done' && end.result, result)
    await stores.store.remove(digest)
    await assert.rejects(all(read()), { code: 'STORE_UNAVAILABLE' })
  },

  'a call that does not exist, or is deleted meanwhile, is not found': async (stores, t) => {
    const { read, news: notifications } = await parts(stores, t)
    await assert.rejects(all(read(0, { callId: 'other' })), { code: 'NOT_FOUND' })
    const reading = assert.rejects(read().next(), { code: 'NOT_FOUND' })
    await stores.database.query('delete from calls')
    await stores.database.query(`select pg_notify('gantry_done', '')`)
    await reading
    await notifications.close()
  },

  'a reader that leaves is unsubscribed, by its signal or by its own return': async (stores, t) => {
    const { read, news: notifications, report } = await parts(stores, t)
    let subscriptions = 0
    const counted: Pick<CallNotifications, 'onCall'> = {
      onCall(callId, listener) {
        subscriptions += 1
        const unsubscribe = notifications.onCall(callId, listener)
        return () => {
          subscriptions -= 1
          unsubscribe()
        }
      },
    }
    const controller = new AbortController()
    await report(1, 1)
    const cut = all(read(eventId(1, 1), { notifications: counted, signal: controller.signal }))
    controller.abort(new Error('gone'))
    await assert.rejects(cut, /gone/)
    const reader = read(0, { notifications: counted })
    await reader.next()
    await reader.return()
    assert.equal(subscriptions, 0)
  },

  'a slow reader gets one page at a time': async (stores, t) => {
    const { read, records, report, end } = await parts(stores, t)
    await report(1, 300)
    await end()
    let pages = 0
    const counted: Pick<EventRecords, 'after'> = {
      after(...args) {
        pages += 1
        return records.after(...args)
      },
    }
    const reader = read(0, { records: counted })
    for (let n = 0; n < 100; n++) await reader.next()
    assert.equal(pages, 1)
    assert.equal((await idsOf(reader)).length, 201)
    assert.equal(pages, 4)
  },
})
