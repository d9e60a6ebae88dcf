import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Report, ToolError } from '@gantry/contract'
import { createBus } from '../../observe/bus.ts'
import { addRows, someCall, testOnDatabases } from '../../storage/calls.fixture.ts'
import { eventRecords, type NewEvent } from '../../storage/events.ts'
import { createEventWriter, type ReportEvent } from './event-writer.ts'

const holder = { callId: 'c1', fence: 3 }
const unavailable = (): ToolError => new ToolError('STORE_UNAVAILABLE', 'The database is unavailable.')

/** Stores events as a database would, one statement at a time, each when the test allows it. */
function heldRecords() {
  const stored: NewEvent[] = []
  const statements: { readonly events: readonly NewEvent[]; readonly end: PromiseWithResolvers<void> }[] = []
  let notified: (() => void) | undefined
  return {
    stored,
    async append(events: readonly NewEvent[]): Promise<void> {
      const end = Promise.withResolvers<void>()
      statements.push({ events, end })
      notified?.()
      await end.promise
      stored.push(...events)
    },
    /** Resolves with the next statement. */
    async next() {
      while (statements.length === 0) {
        await new Promise<void>((resolve) => {
          notified = resolve
        })
      }
      const statement = statements.shift()
      assert.ok(statement)
      return { events: statement.events, ok: statement.end.resolve, fail: statement.end.reject }
    },
    get waiting() {
      return statements.length
    },
  }
}

/** Stores everything at once, or rejects with `fault`. */
function openRecords() {
  const stored: NewEvent[] = []
  const state: { fault: unknown; statements: number } = { fault: undefined, statements: 0 }
  const append = async (events: readonly NewEvent[]): Promise<void> => {
    state.statements += 1
    if (state.fault !== undefined) throw state.fault
    stored.push(...events)
  }
  return { stored, state, append }
}

function log(message: string): Report {
  return { kind: 'log', level: 'info', message }
}

const reportsOf = (events: readonly NewEvent[]): Report[] => events.map(({ event }) => JSON.parse(event))
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

testOnDatabases({
  'the reports of two attempts are stored under increasing ids': async ({ database }) => {
    const records = eventRecords(database)
    await addRows(database, 'calls', [someCall('c1')])
    await addRows(database, 'queue', [{ call_id: 'c1', tenant: 'acme', fence: 3 }])
    const writer = createEventWriter({ bus: createBus(), records })
    const first = writer.open(holder)
    first.report(log('a'))
    await first.report({ kind: 'chunk', data: [1] })
    await first.end()
    await database.query('update queue set fence = 4')
    const second = writer.open({ ...holder, fence: 4 })
    for (let n = 0; n < 300; n++) second.report(log(`${n}`))
    await second.end()
    await writer.close()
    const page = await records.after('c1', 'acme', 0, 1_000)
    assert.deepEqual(page?.events.slice(0, 3), [
      { ...log('a'), id: 3_000_001, callId: 'c1' },
      { kind: 'chunk', data: [1], id: 3_000_002, callId: 'c1' },
      { ...log('0'), id: 4_000_001, callId: 'c1' },
    ])
    assert.deepEqual([page?.events.length, page?.events.at(-1)?.id], [302, 4_000_300])
  },
})

test('the first report is stored at once, and those that arrive meanwhile in one batch', async () => {
  const records = heldRecords()
  const writer = createEventWriter({ bus: createBus(), records, gatherMs: 1 })
  const reports = writer.open(holder)
  reports.report(log('1'))
  const first = await records.next()
  assert.deepEqual(reportsOf(first.events), [log('1')])
  for (const text of ['2', '3', '4']) reports.report(log(text))
  await turn()
  assert.equal(records.waiting, 0)
  first.ok()
  const second = await records.next()
  assert.deepEqual(reportsOf(second.events), [log('2'), log('3'), log('4')])
  second.ok()
  await writer.close()
})

test('the end of a call waits until its reports are stored, and not for the batch interval', async () => {
  const records = heldRecords()
  const writer = createEventWriter({ bus: createBus(), records, gatherMs: 2 ** 30 })
  const reports = writer.open(holder)
  reports.report(log('1'))
  ;(await records.next()).ok()
  await turn()
  reports.report(log('2'))
  let ended = false
  const end = reports.end().then(() => {
    ended = true
  })
  const second = await records.next()
  assert.deepEqual([reportsOf(second.events), ended], [[log('2')], false])
  second.ok()
  await end
  reports.report(log('3'))
  await writer.close()
  assert.equal(records.stored.length, 2)
})

test('a call that reported nothing ends without a statement', async () => {
  const records = openRecords()
  const writer = createEventWriter({ bus: createBus(), records })
  await writer.open(holder).end()
  await writer.close()
  assert.equal(records.state.statements, 0)
})

test('a slow database makes only a streaming tool wait', async () => {
  const records = heldRecords()
  const writer = createEventWriter({ bus: createBus(), records, gatherMs: 1 })
  const reports = writer.open(holder)
  const waits: Promise<void>[] = []
  let chunks = 0
  for (; waits.length === 0; chunks++) {
    const wait = reports.report({ kind: 'chunk', data: chunks })
    if (wait !== undefined) waits.push(wait)
  }
  assert.equal(chunks, 1_000)
  assert.equal(reports.report(log('a')), undefined)
  assert.equal(reports.report({ kind: 'progress', progress: 1 }), undefined)
  const first = await records.next()
  first.ok()
  await waits[0]
  assert.equal(records.stored.length, 200)
  void (async () => {
    for (;;) (await records.next()).ok()
  })()
  await reports.end()
  await writer.close()
  const ids = records.stored.map(({ id }) => id)
  assert.deepEqual(
    ids,
    Array.from({ length: 1_002 }, (_, index) => 3_000_001 + index),
  )
})

test('a failing database delays no tool, and the events that wait for it are bounded', async () => {
  const records = openRecords()
  records.state.fault = unavailable()
  const writer = createEventWriter({ bus: createBus(), records, gatherMs: 1, waitingBytes: 100_000 })
  const reports = writer.open(holder)
  reports.report(log('first'))
  while (records.state.statements === 0) await turn()
  const line = 'x'.repeat(1_000)
  for (let n = 0; n < 5_000; n++) assert.equal(reports.report({ kind: 'chunk', data: line }), undefined)
  for (let n = 0; n < 5_000; n++) reports.report(log(line))
  for (let n = 0; n < 5_000; n++) reports.report({ kind: 'progress', progress: n })
  await reports.end()
  const others = Array.from({ length: 2_000 }, (_, index) => writer.open({ callId: `o${index}`, fence: 1 }))
  for (const other of others) other.report(log(line))
  records.state.fault = undefined
  const late = writer.open({ callId: 'late', fence: 1 })
  while (records.stored.length === 0) await turn()
  late.report(log('late'))
  await late.end()
  await writer.close()
  const bytes = records.stored.reduce((sum, { event }) => sum + event.length, 0)
  assert.ok(bytes > 50_000 && bytes < 200_000, `${bytes}`)
  const own = reportsOf(records.stored.filter(({ callId }) => callId === 'c1'))
  const notes = own.filter((report) => report.kind === 'log' && report.level === 'warn')
  assert.equal(notes.length, 1)
  assert.deepEqual(own[0], log('first'))
  assert.equal(records.stored.filter(({ callId }) => callId === 'late').length, 1)
})

test('events that are not stored when a call ends while the database fails go with its outcome', async () => {
  const records = openRecords()
  records.state.fault = unavailable()
  const writer = createEventWriter({ bus: createBus(), records, gatherMs: 1 })
  const reports = writer.open(holder)
  for (let n = 0; n < 3; n++) void reports.report({ kind: 'chunk', data: n })
  writer.open({ callId: 'other', fence: 1 }).report(log('other'))
  const { events, lost } = await reports.end()
  assert.equal(lost, 0)
  assert.deepEqual(
    events.map(({ callId, fence, id, event }) => [callId, fence, id, JSON.parse(event).data]),
    [0, 1, 2].map((n) => ['c1', 3, 3_000_001 + n, n]),
  )
  await writer.close()
})

test('events that do not fit into memory or into the record of an outcome are counted, and the last event reports their number', async () => {
  const records = openRecords()
  records.state.fault = unavailable()
  const writer = createEventWriter({ bus: createBus(), records, gatherMs: 1 })
  const reports = writer.open(holder)
  const half = 'x'.repeat(600_000)
  for (let n = 0; n < 3; n++) void reports.report({ kind: 'chunk', data: half })
  const { events, lost } = await reports.end()
  assert.deepEqual([events.length, lost], [2, 2])
  assert.match(events[1]?.event ?? '', /"level":"warn".*2 reports of this call were lost/)
  await writer.close()
})

test('events that the database refuses for good do not block others', async () => {
  const records = heldRecords()
  const writer = createEventWriter({ bus: createBus(), records, gatherMs: 1 })
  const reports = writer.open(holder)
  reports.report(log('bad'))
  ;(await records.next()).fail(new ToolError('INTERNAL', 'The statement is wrong.'))
  await turn()
  reports.report(log('good'))
  const end = reports.end()
  const second = await records.next()
  assert.deepEqual(reportsOf(second.events), [log('good')])
  second.ok()
  assert.equal((await end).lost, 1)
  await writer.close()
})

test('a statement whose outcome is unknown is repeated, complete and in order', async () => {
  const records = heldRecords()
  const writer = createEventWriter({ bus: createBus(), records, gatherMs: 1 })
  const reports = writer.open(holder)
  reports.report(log('1'))
  ;(await records.next()).fail(unavailable())
  reports.report(log('2'))
  const again = await records.next()
  assert.deepEqual(reportsOf(again.events), [log('1'), log('2')])
  again.ok()
  await writer.close()
})

test('of a call that reports too much the beginning, one note and the newest progress are kept', async () => {
  const records = openRecords()
  const writer = createEventWriter({ bus: createBus(), records, gatherMs: 1, callEvents: 10 })
  const reports = writer.open(holder)
  for (let n = 1; n <= 9; n++) await reports.report({ kind: 'chunk', data: n })
  for (let n = 1; n <= 50; n++) reports.report({ kind: 'progress', progress: n, total: 50, message: 'long' })
  for (let n = 1; n <= 50; n++) await reports.report({ kind: 'chunk', data: n })
  for (let n = 1; n <= 50; n++) reports.report(log('more'))
  reports.report({ kind: 'progress', progress: 50, total: 50, message: 'over' })
  await reports.end()
  await writer.close()
  const kept = reportsOf(records.stored)
  assert.deepEqual(
    kept.slice(0, 9).map((report) => report.kind === 'chunk' && report.data),
    [1, 2, 3, 4, 5, 6, 7, 8, 9],
  )
  assert.deepEqual(kept[9], { kind: 'progress', progress: 1, total: 50, message: 'long' })
  assert.match(JSON.stringify(kept[10]), /"level":"warn".*not all/)
  assert.deepEqual(kept.at(-1), { kind: 'progress', progress: 50, total: 50 })
  assert.ok(kept.length <= 13, `${kept.length}`)
})

test('a report over the limit of its call is left out, and smaller ones are not', async () => {
  const records = openRecords()
  const writer = createEventWriter({ bus: createBus(), records, gatherMs: 1, callBytes: 1_000 })
  const reports = writer.open(holder)
  await reports.report({ kind: 'chunk', data: 'x'.repeat(5_000) })
  reports.report({ kind: 'progress', progress: 1, message: 'x'.repeat(5_000) })
  reports.report(log('small'))
  await reports.end()
  await writer.close()
  const kept = reportsOf(records.stored)
  assert.deepEqual(kept.slice(1), [{ kind: 'progress', progress: 1 }, log('small')])
  assert.match(JSON.stringify(kept[0]), /not all/)
})

test('local listeners receive reports at once, and a listener that throws affects no other', async () => {
  const records = heldRecords()
  const writer = createEventWriter({ bus: createBus(), records, gatherMs: 1 })
  const received: ReportEvent[] = []
  writer.on('c1', () => {
    throw new Error('mine')
  })
  const unsubscribe = writer.on('c1', (event) => received.push(event))
  const reports = writer.open(holder)
  reports.report(log('1'))
  writer.open({ callId: 'c2', fence: 1 }).report(log('other'))
  assert.deepEqual(received, [{ ...log('1'), id: 3_000_001, callId: 'c1' }])
  unsubscribe()
  reports.report(log('2'))
  assert.equal(received.length, 1)
  const closing = writer.close()
  ;(await records.next()).ok()
  await closing
})
