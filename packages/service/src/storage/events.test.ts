import assert from 'node:assert/strict'
import type { Report } from '@gantry/contract'
import { addRows, someCall, someEnd, testOnDatabases } from './calls.fixture.ts'
import type { Queries } from './databases/database.ts'
import { endEventId, eventId, eventRecords, mostReports } from './events.ts'

/** Adds a call that a worker runs under this fence. */
async function running(database: Queries, callId: string, fence: number): Promise<void> {
  await addRows(database, 'calls', [someCall(callId)])
  await addRows(database, 'queue', [{ call_id: callId, tenant: 'acme', fence }])
}

function event(callId: string, fence: number, n: number, report: Report = { kind: 'progress', progress: n }) {
  return { callId, fence, id: eventId(fence, n), event: JSON.stringify(report) }
}

testOnDatabases({
  'events are read in order and in pages, after any id': async ({ database }) => {
    const records = eventRecords(database)
    await running(database, 'c1', 1)
    await running(database, 'c2', 1)
    await records.append([2, 1, 3].map((n) => event('c1', 1, n)))
    await records.append([event('c2', 1, 1)])
    const first = await records.after('c1', 'acme', 0, 2)
    assert.deepEqual(first, {
      events: [
        { kind: 'progress', progress: 1, id: 1_000_001, callId: 'c1' },
        { kind: 'progress', progress: 2, id: 1_000_002, callId: 'c1' },
      ],
    })
    const rest = await records.after('c1', 'acme', 1_000_002, 10)
    assert.deepEqual(
      rest?.events.map(({ id }) => id),
      [1_000_003],
    )
    assert.deepEqual(await records.after('c1', 'acme', 1_000_003, 10), { events: [] })
  },

  'an event is read back exactly as it was appended': async ({ database }) => {
    const records = eventRecords(database)
    await running(database, 'c1', 1)
    const data = { 'a\0b': '\0\ud800 "\\ 🎈', list: [1e300, -0.5, null, true], ['__proto__']: { x: 1 } }
    const reports: Report[] = [
      { kind: 'chunk', data },
      { kind: 'log', level: 'error', message: 'line\n\0', data: [] },
    ]
    await records.append(reports.map((report, index) => event('c1', 1, index + 1, report)))
    const page = await records.after('c1', 'acme', 0, 10)
    assert.deepEqual(
      page?.events.map(({ id, callId, ...report }) => report),
      reports,
    )
  },

  'append ignores events under an older fence, of an ended call or of an unknown call': async ({ database }) => {
    const records = eventRecords(database)
    await running(database, 'c1', 2)
    await running(database, 'ended', 1)
    await database.query(`delete from queue where call_id = 'ended'`)
    await records.append([event('c1', 1, 5), event('c1', 2, 1), event('ended', 1, 1), event('unknown', 1, 1)])
    const rows = await database.query('select call_id, id from events')
    assert.deepEqual(rows, [{ call_id: 'c1', id: 2_000_001 }])
  },

  'appending an event again does not change it': async ({ database }) => {
    const records = eventRecords(database)
    await running(database, 'c1', 1)
    await records.append([event('c1', 1, 1)])
    await records.append([event('c1', 1, 1, { kind: 'progress', progress: 99 }), event('c1', 1, 2)])
    const page = await records.after('c1', 'acme', 0, 10)
    assert.deepEqual(
      page?.events.map(({ kind, id }) => [kind, id]),
      [
        ['progress', 1_000_001],
        ['progress', 1_000_002],
      ],
    )
    assert.deepEqual(page?.events[0], { kind: 'progress', progress: 1, id: 1_000_001, callId: 'c1' })
  },

  'the id of a call’s end is above the ids of all its events, for any fence': async ({ database }) => {
    const records = eventRecords(database)
    await running(database, 'c1', 2_147_483_647)
    await records.append([event('c1', 2_147_483_647, mostReports)])
    await addRows(database, 'results', [someEnd('c1', { fence: 2_147_483_647 })])
    const page = await records.after('c1', 'acme', 0, 10)
    const [last] = page?.events ?? []
    assert.equal(page?.endId, endEventId(2_147_483_647))
    assert.ok(Number.isSafeInteger(page.endId) && last !== undefined && last.id < page.endId)
    assert.ok(last.id > endEventId(2_147_483_646))
  },

  'a missing call has no page of events': async ({ database }) => {
    assert.equal(await eventRecords(database).after('missing', 'acme', 0, 10), undefined)
  },

  'append notifies listeners of all call ids, in as many notifications as needed': async ({ database }, t) => {
    const records = eventRecords(database)
    const ids = Array.from({ length: 250 }, (_, index) => `01890a5d-ac96-774b-bcce-b302099a8${index + 100}`)
    for (const callId of ids) await addRows(database, 'queue', [{ call_id: callId, tenant: 'acme', fence: 1 }])
    const received = new Set<string>()
    const all = Promise.withResolvers<void>()
    const unsubscribe = await database.listen('gantry_event', (payload) => {
      for (const id of payload?.split(',') ?? []) received.add(id)
      if (received.size === ids.length) all.resolve()
    })
    t.after(() => unsubscribe())
    await records.append(ids.map((callId) => event(callId, 1, 1)))
    await all.promise
    assert.deepEqual([...received].sort(), ids)
  },

  'append sends an empty payload, for all calls, when the ids do not fit into a notification': async (
    { database },
    t,
  ) => {
    const records = eventRecords(database)
    const ids = Array.from({ length: 50 }, (_, index) => `${index}`.padStart(200, 'x'))
    for (const callId of ids) await addRows(database, 'queue', [{ call_id: callId, tenant: 'acme', fence: 1 }])
    const received = Promise.withResolvers<string | undefined>()
    const unsubscribe = await database.listen('gantry_event', received.resolve)
    t.after(() => unsubscribe())
    await records.append(ids.map((callId) => event(callId, 1, 1)))
    assert.equal(await received.promise, '')
    assert.deepEqual(await database.query('select count(*) as count from events'), [{ count: 50 }])
  },
})
