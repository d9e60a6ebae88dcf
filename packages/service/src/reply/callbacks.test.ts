import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type StreamEvent, verifyWebhook } from '@gantry/contract'
import { createEgress } from '@gantry/core'
import { postgresDatabase } from '../../test/databases.fixture.ts'
import { someCall as admittedCall } from '../conformance/call-store/samples.ts'
import { createBus } from '../observe/bus.ts'
import { callViews } from '../storage/call-views.ts'
import { sqlCallStore } from '../storage/calls/sql.ts'
import { addRows, someCall, someEnd, someResult, testOnDatabases } from '../storage/calls.fixture.ts'
import type { Database } from '../storage/databases/database.ts'
import { eventRecords } from '../storage/events.ts'
import { outboxRecords } from '../storage/outbox/outbox.ts'
import { createEventWriter } from '../worker/execute/event-writer.ts'
import { type Receiver, receiver, testKey } from './callback.fixture.ts'
import { createCallbackSender } from './callback.ts'
import { callEvents } from './event-stream.ts'
import { startRelay } from './relay.ts'
import { openCallNotifications } from './waiters.ts'

const views = (database: Database) => callViews(database, { content: () => Promise.reject(new Error('no files')) })

async function put(database: Database, target: string, ...callIds: readonly string[]): Promise<void> {
  for (const callId of callIds) {
    await addRows(database, 'calls', [someCall(callId, { callback: target })])
    await addRows(database, 'results', [someEnd(callId)])
    await addRows(database, 'outbox', [{ call_id: callId, tenant: 'acme', kind: 'callback', target }])
  }
  await database.query(`select pg_notify('gantry_done', ''), pg_notify('gantry_outbox', '')`)
}

/** A relay of callbacks to these receivers, stopped with the test. */
async function relay(t: TestContext, database: Database, ...origins: readonly string[]): Promise<void> {
  const egress = createEgress({})
  const listed = origins.map((origin) => ({ origin, private: true }))
  const notifications = await openCallNotifications(database)
  const send = createCallbackSender({
    egress,
    origins: () => listed,
    keyOf: async () => testKey,
    views: views(database),
    timeoutMs: 2_000,
  })
  const started = startRelay({
    outbox: outboxRecords(database),
    notifications: notifications,
    send,
    tries: 4,
    pollMs: 50,
    random: () => 0,
  })
  t.after(async () => {
    await started.stop(AbortSignal.abort())
    await notifications.close()
    await egress.close()
  })
}

/** Waits until every item is sent or failed, without the delays between attempts. */
async function settled(database: Database): Promise<void> {
  for (;;) {
    const open = 'sent_at is null and failed_at is null'
    const left = await database.query(`update outbox set next_at = now() where ${open} returning id`)
    if (left.length === 0) return
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

async function all(events: AsyncIterable<StreamEvent>): Promise<StreamEvent[]> {
  const found: StreamEvent[] = []
  for await (const event of events) found.push(event)
  return found
}

const idsOf = ({ received }: Receiver): string[] => received.map(({ body }) => JSON.parse(body).callId)

testOnDatabases({
  'a receiver that was down gets its callback when it is up again': async ({ database }, t) => {
    const down = await receiver(t)
    await down.close()
    await put(database, down.url, 'c1')
    await relay(t, database, down.origin)
    const failed = 'select last_error from outbox where last_error is not null'
    let rows = await database.query<{ last_error: string }>(failed)
    while (rows.length === 0) rows = await database.query(failed)
    assert.match(String(rows[0]?.last_error), /refused the connection/)
    const up = await receiver(t, undefined, down.port)
    await settled(database)
    const [got] = up.received
    assert.ok(got !== undefined && up.received.length === 1)
    assert.equal(await verifyWebhook([testKey], got), 'valid')
    assert.deepEqual(await database.query('select id from dead_letters'), [])
  },

  'a receiver that fails gets the same message until it accepts it': async ({ database }, t) => {
    const moody = await receiver(t, (_, response, count) => response.writeHead(count < 3 ? 500 : 200).end('later'))
    await put(database, moody.url, 'c1')
    await relay(t, database, moody.origin)
    await settled(database)
    assert.equal(moody.received.length, 3)
    assert.equal(new Set(moody.received.map(({ headers }) => headers['webhook-id'])).size, 1)
    assert.deepEqual(await database.query('select tries, sent_at is not null as sent, last_error from outbox'), [
      { tries: 3, sent: true, last_error: null },
    ])
  },

  'a receiver that always fails is given up, and its dead letter has the reason': async ({ database }, t) => {
    const broken = await receiver(t, (_, response) => response.writeHead(500).end('I am broken'))
    await put(database, broken.url, 'c1')
    await relay(t, database, broken.origin)
    await settled(database)
    assert.equal(broken.received.length, 4)
    const [deadLetter] = await database.query('select source, reason, deliveries from dead_letters')
    assert.deepEqual(deadLetter, {
      source: 'callback',
      reason: `${broken.origin} answered 500`,
      deliveries: 4,
    })
  },

  'a receiver that does not answer delays no other': async ({ database }, t) => {
    const silent = await receiver(t, () => {})
    const prompt = await receiver(t)
    await put(database, silent.url, ...Array.from({ length: 100 }, (_, index) => `s${index}`))
    await put(database, prompt.url, 'p1', 'p2')
    await relay(t, database, silent.origin, prompt.origin)
    const done = `select count(*) as sent from outbox where sent_at is not null`
    while ((await database.query<{ sent: number }>(done))[0]?.sent !== 2) assert.ok(idsOf(prompt).length <= 2)
    assert.deepEqual(idsOf(prompt).sort(), ['p1', 'p2'])
  },

  'two concurrent relays send every callback and lose none': async ({ database }, t) => {
    const target = await receiver(t, (_, response, count) => response.writeHead(count % 5 === 0 ? 503 : 200).end())
    await relay(t, database, target.origin)
    await relay(t, database, target.origin)
    const ids = Array.from({ length: 60 }, (_, index) => `c${index}`)
    await put(database, target.url, ...ids)
    await settled(database)
    assert.deepEqual([...new Set(idsOf(target))].sort(), ids.toSorted())
    const [counts] = await database.query('select count(sent_at) as sent, count(failed_at) as failed from outbox')
    assert.deepEqual(counts, { sent: 60, failed: 0 })
  },

  'the receiver is notified of a call from its reports to its outcome, over two attempts': async ({ database }, t) => {
    const target = await receiver(t)
    await relay(t, database, target.origin)
    const notifications = await openCallNotifications(database)
    t.after(() => notifications.close())
    const store = sqlCallStore(database)
    const records = eventRecords(database)
    const writer = createEventWriter({ bus: createBus(), records })
    await store.submit([admittedCall('c1', { callback: target.url })])
    const events = { records, notifications, views: views(database), callId: 'c1', tenant: 'acme', signal: t.signal }
    const reading = all(callEvents({ ...events, afterId: 0 }))
    const [first] = await store.claim(1, { worker: 'w1', leaseMs: 0 })
    assert.ok(first !== undefined)
    const lost = writer.open(first)
    lost.report({ kind: 'progress', progress: 1 })
    await lost.end()
    await store.reclaim({ max: 10 })
    const [second] = await store.claim(1, { worker: 'w2', leaseMs: 60_000 })
    assert.ok(second !== undefined)
    lost.report({ kind: 'progress', progress: 99 })
    const late = writer.open(first)
    late.report({ kind: 'progress', progress: 99 })
    const reports = writer.open(second)
    reports.report({ kind: 'progress', progress: 2 })
    await Promise.all([late.end(), reports.end()])
    const result = someResult({ callId: 'c1' })
    const text = JSON.stringify(result)
    assert.deepEqual(await store.finish([{ ...second, result, text, bytes: text.length }]), ['c1'])
    const seen = await reading
    assert.deepEqual(
      seen.map(({ id, kind }) => [id, kind]),
      [
        [first.fence * 1_000_000 + 1, 'progress'],
        [second.fence * 1_000_000 + 1, 'progress'],
        [second.fence * 1_000_000 + 999_999, 'done'],
      ],
    )
    assert.deepEqual(await all(callEvents({ ...events, afterId: first.fence * 1_000_000 + 1 })), seen.slice(1))
    await settled(database)
    assert.deepEqual(JSON.parse(target.received[0]?.body ?? ''), {
      callId: 'c1',
      kind: 'call',
      tool: 'math:add:1.0.0',
      state: 'ok',
      result,
    })
    await writer.close()
  },

  'a call whose result is an artifact reaches its receiver complete': async ({ database }, t) => {
    const target = await receiver(t)
    const data = { text: '\0 \ud800 🎈', big: 1e300, ['__proto__']: 1 }
    await put(database, target.url, 'c1')
    await database.query('update results set result = $1', [JSON.stringify(data)])
    await relay(t, database, target.origin)
    await settled(database)
    assert.deepEqual(JSON.parse(target.received[0]?.body ?? '').result, data)
  },
})

test('a callback whose relay is killed before it is marked as sent is sent again, with the same id', async (t) => {
  const { database, url } = await postgresDatabase(t)
  const target = await receiver(t)
  await put(database, target.url, 'c1')
  const script = join(import.meta.dirname, 'relay-killed.fixture.ts')
  const child = spawn(process.execPath, [script, url, target.origin], { stdio: ['ignore', 'ignore', 'inherit'] })
  t.after(() => child.kill('SIGKILL'))
  const [, signal] = await once(child, 'exit')
  assert.equal(signal, 'SIGKILL')
  assert.equal(target.received.length, 1)
  assert.deepEqual(await database.query('select tries, sent_at from outbox'), [{ tries: 1, sent_at: null }])
  await relay(t, database, target.origin)
  await settled(database)
  const messages = target.received.map(({ headers, body }) => [headers['webhook-id'], JSON.parse(body).callId])
  const [row] = await database.query<{ id: number }>('select id from outbox')
  assert.deepEqual(messages, [
    [`c1_${row?.id}`, 'c1'],
    [`c1_${row?.id}`, 'c1'],
  ])
})
