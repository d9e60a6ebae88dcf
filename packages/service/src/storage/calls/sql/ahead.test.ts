import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { postgresDatabase } from '../../../../test/databases.fixture.ts'
import { mine, someCall, someEnding } from '../../../conformance/call-store/samples.ts'
import { failure } from '../../../conformance/database.ts'
import type { Database } from '../../databases/database.ts'
import type { AdmittedCall, Ahead, CallStore } from '../call-store.ts'
import { sqlFixture } from '../sql.fixture.ts'

async function open(t: TestContext) {
  const { database } = await postgresDatabase(t)
  const fixture = await sqlFixture(database)
  while (!database.asService().line?.ready) await new Promise((resolve) => setTimeout(resolve, 5))
  return { database, ...fixture }
}

function ahead(store: CallStore, ...calls: readonly AdmittedCall[]): Ahead {
  const sent = store.submitAhead?.(calls, mine)
  assert.ok(sent !== undefined)
  return sent
}

/** Blocks inserts of calls until the returned function is called. */
async function holdUp(database: Database): Promise<() => void> {
  const locked = Promise.withResolvers<void>()
  const { promise: until, resolve: free } = Promise.withResolvers<void>()
  void database.transaction(async (queries) => {
    await queries.query('lock table calls in exclusive mode')
    locked.resolve()
    await until
  })
  await locked.promise
  return free
}

test('submitAhead returns a claim before the insert, and its ending is pipelined behind the insert', async (t) => {
  const { database, store, records } = await open(t)
  const free = await holdUp(database)
  const { claims, submitted } = ahead(store, someCall('a'), someCall('b'))
  const [a] = claims
  assert.ok(a !== undefined)
  const finished = store.finish([someEnding(a)])
  free()
  assert.deepEqual(await finished, ['a'])
  assert.deepEqual(
    (await submitted).map(({ kind, callId }) => [kind, callId]),
    [
      ['new', 'a'],
      ['new', 'b'],
    ],
  )
  await Promise.all(claims.map(({ entering }) => entering))
  const { results, attempts, audit } = await records()
  assert.deepEqual(
    results.map(({ callId, fence }) => [callId, fence]),
    [['a', 1]],
  )
  assert.deepEqual(
    attempts.map(({ callId, worker, outcome }) => [callId, worker, outcome]),
    [['a', 'w1', 'ok']],
  )
  assert.deepEqual(audit.map(({ callId, phase }) => `${callId} ${phase}`).sort(), ['a end', 'a start', 'b start'])
  assert.deepEqual(await store.extend(claims.slice(1), 1_000), { lost: [], cancelled: [] })
})

test('a claim of submitAhead equals the claim of the completed submission, apart from `entering`', async (t) => {
  const { store } = await open(t)
  const call = someCall('a', { timeoutMs: 5, trace: '00-1' })
  const { claims, submitted } = ahead(store, call)
  const { entering, ...claim } = claims[0] ?? {}
  assert.ok(entering instanceof Promise)
  const [first] = await submitted
  assert.ok(first?.kind === 'new')
  assert.deepEqual(claim, first.claim)
})

test('submitAhead refuses calls with a key, delay, deadline, priority, slot or placement', async (t) => {
  const { store, records } = await open(t)
  const others: readonly Partial<AdmittedCall>[] = [
    { key: 'k' },
    { delayMs: 1 },
    { deadlineMs: 1_000 },
    { priority: 1 },
    { slot: { key: 's', limit: 1 } },
    { placement: { zone: 'a' } },
  ]
  for (const given of others) assert.equal(store.submitAhead?.([someCall('a'), someCall('b', given)], mine), undefined)
  assert.deepEqual((await records()).audit, [])
})

test('a lost connection leaves submission and ending unknown, and a call that was not inserted can be submitted again', async (t) => {
  const { database, store } = await open(t)
  const free = await holdUp(database)
  const { claims, submitted } = ahead(store, someCall('a'))
  const [claim] = claims
  assert.ok(claim !== undefined)
  const finished = failure(store.finish([someEnding(claim)]))
  const lost = failure(submitted)
  const entering = assert.rejects(claim.entering ?? Promise.resolve())
  await database.query(`select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'`)
  for (const { code, details } of [await finished, await lost]) {
    assert.deepEqual([code, details?.outcome], ['STORE_UNAVAILABLE', 'unknown'])
  }
  await entering
  free()
  assert.equal(store.submitAhead?.([someCall('b')], mine), undefined, 'the pipelined connection is closed')
  assert.deepEqual(await store.outcomes([claim]), [])
  assert.equal((await store.submit([someCall('a')], mine))[0]?.kind, 'new')
})

test('submitAhead with an existing call id yields no new call, and rejects `entering` of its claim', async (t) => {
  const { store, records } = await open(t)
  await store.submit([someCall('a')], mine)
  const alone = ahead(store, someCall('a'))
  const refused = assert.rejects(alone.claims[0]?.entering ?? Promise.resolve())
  assert.equal((await failure(alone.submitted)).code, 'INTERNAL')
  await refused
  const both = ahead(store, someCall('a'), someCall('b'))
  const there = assert.rejects(both.claims[0]?.entering ?? Promise.resolve(), /exists already/)
  assert.deepEqual(
    (await both.submitted).map(({ kind }) => kind),
    ['duplicate', 'new'],
  )
  await there
  assert.equal((await records()).audit.length, 2)
})

test('an ending that the pipelined connection refuses is written over another one, after the insert of its call', async (t) => {
  const { store, records } = await open(t)
  const { claims, submitted } = ahead(store, someCall('a'), someCall('b'))
  const [a, b] = claims
  assert.ok(a !== undefined && b !== undefined)
  // A failed prepare also fails the statements of the same name behind it: here the text is invalid for the database.
  const wrong = store.finish([someEnding(a, { text: '\u0000' })])
  const right = store.finish([someEnding(b)])
  await assert.rejects(wrong)
  assert.deepEqual(await right, ['b'])
  await submitted
  assert.deepEqual(
    (await records()).results.map(({ callId }) => callId),
    ['b'],
  )
})

test('entering() is pending until the call is inserted', async (t) => {
  const { store } = await open(t)
  const { submitted } = ahead(store, someCall('a'))
  const entering = store.entering?.('a')
  assert.ok(entering instanceof Promise)
  assert.equal(store.entering?.('b'), undefined)
  await submitted
  await entering
  assert.equal(store.entering?.('a'), undefined)
})
