import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { ErrorInfo } from '@gantry/contract'
import fc from 'fast-check'
import { pgliteDatabase, postgresDatabase } from '../../../test/databases.fixture.ts'
import {
  loseOne,
  manyCalls,
  mine,
  type StoreFixture,
  someCall,
  someEnding,
  someResult,
  theirs,
} from '../../conformance/call-store/samples.ts'
import { testCallStore } from '../../conformance/call-store.ts'
import type { Database, Row } from '../databases/database.ts'
import { openPostgres } from '../databases/postgres.ts'
import { outboxPosts } from '../outbox/outbox.ts'
import { plainOf } from './call-facts.ts'
import type { AdmittedCall, CallStore, Ending } from './call-store.ts'
import { memoryFixture } from './memory.fixture.ts'
import { live, operations } from './operations.fixture.ts'
import { sqlFixture } from './sql.fixture.ts'
import { sqlCallStore } from './sql.ts'

const engines = {
  PGlite: pgliteDatabase,
  PostgreSQL: async (t: TestContext) => (await postgresDatabase(t)).database,
}

const reply = { codec: 'native', transport: 'redis', to: 'answers', data: {} }
const error: ErrorInfo = { code: 'BACKEND_FAILED', message: 'no', stage: 'execute', retryable: false, effect: 'none' }

/** Sample calls with their endings. */
const samples: readonly { readonly call: Partial<AdmittedCall>; readonly end?: Partial<Ending> }[] = [
  { call: {}, end: { config: 'v1' } },
  { call: { key: 'k' } },
  { call: { reply } },
  { call: { key: 'l', reply: { ...reply, transport: 'kafka', to: 'topic' } } },
  { call: { callback: 'https://example.com/' } },
  { call: { slot: { key: 's', limit: 2 } } },
  { call: { identity: { principal: 'bob', tenant: 'beta', permissions: [] }, tool: 'text:cut:2.0.0' } },
  { call: { kind: 'chain', tool: 'chain' }, end: { ref: 'sha256:1', bytes: 5_000_000 } },
  { call: {}, end: { result: someResult('x', { status: 'failed', error }) } },
  { call: { reply }, end: { result: someResult('x', { status: 'denied', error }) } },
  { call: {}, end: { dead: { reason: 'odd' } } },
]

for (const [engine, open] of Object.entries(engines)) {
  testCallStore(`SQL on ${engine} with plain calls marked`, async (t) => {
    const database = await open(t)
    return async () => plainFixture(await sqlFixture(database))
  })

  test(`${engine}: SQL with plain calls marked and the memory store agree on any sequence of operations`, async (t) => {
    const database = await open(t)
    const property = fc.asyncProperty(operations, async (steps) => {
      const fixture = plainFixture(await sqlFixture(database))
      assert.deepEqual(await live(fixture, steps), await live(memoryFixture(), steps))
    })
    await fc.assert(property, { numRuns: 30 })
  })

  test(`${engine}: a plain ending writes the same rows as any other, alone, among plain endings and in a mixed batch`, async (t) => {
    const database = await open(t)
    const plain = samples.filter(({ call }) => call.callback === undefined && call.slot === undefined)
    const batches = [...samples.map((sample) => [sample]), [...plain, ...plain], plain.slice(0, 3), samples]
    for (const [index, batch] of batches.entries()) {
      const without = await ended(database, batch, () => ({}))
      assert.deepEqual(await ended(database, batch, plainOf), without, `batch ${index}`)
      assert.equal(without.results?.length, batch.length)
    }
  })

  test(`${engine}: a late worker’s plain ending replaces its lost attempt, and is refused under another fence`, async (t) => {
    const fixture = plainFixture(await sqlFixture(await open(t)))
    const { store, other, records } = fixture
    await store.submit([someCall('a')])
    const late = await loseOne(fixture)
    assert.deepEqual(await store.finish([someEnding({ ...late, fence: 2 })]), [])
    assert.deepEqual(await store.finish([someEnding(late)]), ['a'])
    assert.deepEqual((await records()).attempts, [{ callId: 'a', fence: 1, worker: 'w1', outcome: 'ok' }])
    await store.submit([someCall('b'), someCall('c')])
    const lost = await store.claim(2, mine)
    await store.reclaim({ max: 10, leases: 'all' })
    const [now] = await other.claim(1, theirs)
    assert.deepEqual(await store.finish(lost.map((claim) => someEnding(claim))), ['c'])
    assert.deepEqual(await other.finish([someEnding(now ?? { callId: '', fence: 0 })]), ['b'])
    const outcomes = (await records()).attempts.map(({ callId, fence, outcome }) => `${callId} ${fence} ${outcome}`)
    assert.deepEqual(outcomes.sort(), ['a 1 ok', 'b 1 lost', 'b 2 ok', 'c 1 ok'])
  })

  test(`${engine}: a plain ending makes the pending replies of repeated submissions due`, async (t) => {
    const database = await open(t)
    const { store } = plainFixture(await sqlFixture(database))
    const heard: string[] = []
    await database.listen('gantry_outbox', () => heard.push('outbox'))
    for (const count of [1, 3]) {
      heard.length = 0
      const calls = manyCalls(count).map((call) => ({
        ...call,
        callId: `${count}${call.callId}`,
        key: `${count}${call.callId}`,
      }))
      await store.submit(calls)
      const posts = outboxPosts(database)
      const waiting = { tenant: 'acme', kind: 'reply', target: 'to', body: '{}', waits: true } as const
      await posts.post(calls.map(({ callId }) => ({ ...waiting, callId })))
      await store.finish((await store.claim(10, mine)).map((claim) => someEnding(claim)))
      assert.deepEqual(await database.query(`select call_id from outbox where next_at = 'infinity'`), [])
      while (heard.length === 0) await new Promise((resolve) => setTimeout(resolve, 1))
    }
  })

  test(`${engine}: the audit entry has the principal of a call whose queue row has none`, async (t) => {
    const database = await open(t)
    const { store, records } = plainFixture(await sqlFixture(database))
    for (const count of [1, 2]) {
      await store.submit(manyCalls(count).map((call) => ({ ...call, callId: `${count}${call.callId}` })))
      await database.query('update queue set principal = null')
      await store.finish((await store.claim(10, mine)).map((claim) => someEnding(claim)))
    }
    const ends = (await records()).audit.filter(({ phase }) => phase === 'end')
    assert.deepEqual(
      ends.map(({ principal }) => principal),
      ['ada', 'ada', 'ada'],
    )
  })
}

test('PostgreSQL: workers that complete the same calls in different orders do not deadlock', async (t) => {
  const { url, database } = await postgresDatabase(t)
  const another = await openPostgres({ url })
  t.after(() => another.close())
  const { store, other, records } = plainFixture(await sqlFixture(database, another))
  const calls = [...manyCalls(20), ...manyCalls(20, { reply }).map((call) => ({ ...call, callId: `r${call.callId}` }))]
  for (const [index, those] of [calls.slice(0, 20), calls.slice(20), calls].entries()) {
    const named = those.map((call) => ({ ...call, callId: `${index}${call.callId}` }))
    await store.submit(named)
    const claims = await store.claim(named.length, mine)
    const ends = claims.map((claim) => someEnding(claim))
    const middle = named[10]?.callId ?? ''
    await whileLocked(database, middle, 3, () =>
      Promise.all([store.finish(ends), other.finish(ends.toReversed()), other.extend(claims.toReversed(), 10_000)]),
    )
  }
  assert.equal((await records()).results.length, 80)
})

test('PostgreSQL: a plain ending that waited for a concurrent change of its lease is accepted unless the fence changed', async (t) => {
  const { database } = await postgresDatabase(t)
  const { store, records } = plainFixture(await sqlFixture(database))
  const meanwhile = `
    update queue set lease_until = now() + interval '1 hour' where call_id like 'extended%';
    update queue set fence = fence + 1 where call_id like 'claimed%';
    update queue set lease_until = null where call_id like 'lost%';
    insert into attempts (call_id, fence, worker, outcome) select call_id, 1, 'w1', 'lost' from calls where call_id like 'lost%'`
  const fates = ['claimed', 'extended', 'lost']
  await store.submit(['1', '2', '3'].flatMap((n) => fates.map((fate) => someCall(fate + n))))
  const ends = (await store.claim(10, mine)).map((claim) => someEnding(claim))
  const batches = [...ends.slice(0, 3).map((one) => [one]), ends.slice(3)]
  let work: Promise<readonly (readonly string[])[]> | undefined
  await database.transaction(async (queries) => {
    await queries.query(meanwhile)
    work = Promise.all(batches.map((batch) => store.finish(batch)))
    await untilWaiting(database, batches.length)
  })
  assert.deepEqual(await work, [[], ['extended1'], ['lost1'], ['extended2', 'extended3', 'lost2', 'lost3']])
  const { results, attempts } = await records()
  const accepted = ['extended1', 'extended2', 'extended3', 'lost1', 'lost2', 'lost3']
  assert.deepEqual(results.map(({ callId }) => callId).sort(), accepted)
  assert.deepEqual(
    attempts.map(({ callId, outcome }) => `${callId} ${outcome}`).sort(),
    accepted.map((id) => `${id} ok`),
  )
  assert.equal((await database.query('select from queue')).length, 3)
})

/** Completes the sample calls in one batch and reads all rows it wrote, without times and serial numbers. */
async function ended(
  database: Database,
  batch: typeof samples,
  plain: (call: AdmittedCall) => Pick<Ending, 'plain'>,
): Promise<{ readonly [table: string]: readonly Row[] }> {
  await sqlFixture(database)
  const store = sqlCallStore(database.asService(), ['redis'])
  const calls = batch.map(({ call }, index) => {
    const callId = `c${index}`
    return someCall(callId, call.key === undefined ? call : { ...call, key: callId })
  })
  await store.submit(calls)
  const claims = await store.claim(batch.length, mine)
  const endings = claims.map((claim) => {
    const end = batch[Number(claim.callId.slice(1))]?.end
    return { ...someEnding(claim, end), ...plain(claim.call) }
  })
  assert.deepEqual([...(await store.finish(endings))].sort(), calls.map(({ callId }) => callId).sort())
  const read = (sql: string): Promise<readonly Row[]> => database.query(sql)
  return {
    queue: await read('select call_id from queue'),
    results: await read(
      'select call_id, status, code, result, result_ref, result_bytes, fence from results order by call_id',
    ),
    attempts: await read(
      'select call_id, fence, worker, outcome, started_at < ended_at as timed from attempts order by call_id',
    ),
    audit: await read(`
      select call_id, tenant, principal, fence, phase, tool, worker, status, code, config, details
      from audit order by call_id, seq`),
    outbox: await read(`
      select call_id, tenant, kind, target, tries, next_at = created_at as due, body, item,
        lease_until - created_at as own
      from outbox order by call_id`),
    deadLetters: await read('select id, tenant, call_id, source, reason, code, tool, deliveries from dead_letters'),
  }
}

/** The store with `plainOf(call)` added to each ending, as a worker does. */
function plainFixture({ store, other, ...rest }: StoreFixture): StoreFixture {
  const calls = new Map<string, AdmittedCall>()
  const informed = (one: CallStore): CallStore => ({
    ...one,
    submit(those, ...how) {
      for (const call of those) calls.set(call.callId, call)
      return one.submit(those, ...how)
    },
    finish: (endings) =>
      one.finish(
        endings.map((ending) => {
          const call = calls.get(ending.callId)
          return call === undefined ? ending : { ...ending, ...plainOf(call) }
        }),
      ),
  })
  return { ...rest, store: informed(store), other: informed(other) }
}

/** Starts work while a call is locked, and unlocks the call once `waiting` statements wait. */
async function whileLocked(
  database: Database,
  callId: string,
  waiting: number,
  start: () => Promise<unknown>,
): Promise<void> {
  let work: Promise<unknown> | undefined
  await database.transaction(async (queries) => {
    await queries.query('select from queue where call_id = $1 for update', [callId])
    work = start()
    // A rejection is handled where it is awaited below.
    work.catch(() => undefined)
    await untilWaiting(database, waiting)
  })
  await work
}

/** Queries outside a transaction, because within one pg_stat_activity is read only once. */
async function untilWaiting(database: Database, statements: number): Promise<void> {
  for (let found = 0; found < statements; ) {
    const waits = await database.query(
      `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    )
    found = waits.length
  }
}
