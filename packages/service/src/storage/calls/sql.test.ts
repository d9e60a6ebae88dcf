import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { pgliteDatabase, postgresDatabase } from '../../../test/databases.fixture.ts'
import { manyCalls, mine, someCall, someEnding } from '../../conformance/call-store/samples.ts'
import { testCallStore } from '../../conformance/call-store.ts'
import type { Database, Row } from '../databases/database.ts'
import { openPostgres } from '../databases/postgres.ts'
import { memoryFixture } from './memory.fixture.ts'
import { live, operations } from './operations.fixture.ts'
import { sqlFixture } from './sql.fixture.ts'
import { sqlCallStore } from './sql.ts'

type Databases = { readonly database: Database; readonly other: Database }

const engines = {
  async PGlite(t: TestContext): Promise<Databases> {
    const database = await pgliteDatabase(t)
    return { database, other: database }
  },
  async PostgreSQL(t: TestContext): Promise<Databases> {
    const { url, database } = await postgresDatabase(t)
    const other = await openPostgres({ url })
    t.after(() => other.close())
    return { database, other }
  },
}

for (const [engine, open] of Object.entries(engines)) {
  testCallStore(`SQL on ${engine}`, async (t) => {
    const { database, other } = await open(t)
    return () => sqlFixture(database, other)
  })

  test(`${engine}: SQL and the memory store agree on any sequence of operations`, async (t) => {
    const { database, other } = await open(t)
    const property = fc.asyncProperty(operations, async (steps) => {
      assert.deepEqual(await live(await sqlFixture(database, other), steps), await live(memoryFixture(), steps))
    })
    await fc.assert(property, { numRuns: 30 })
  })

  test(`${engine}: a submission with a claim that arrives after notAfter, when its client gave up, leaves no call`, async (t) => {
    const { database } = await open(t)
    const given = someCall('given-up', { effect: 'once' })
    for (const call of [given, { ...given, priority: 1 }]) {
      const gone: Database = {
        ...database,
        async query(sql, parameters) {
          await database.query(sql, parameters)
          throw new ToolError('STORE_UNAVAILABLE', 'No answer came.', { details: { outcome: 'unknown' } })
        },
      }
      await assert.rejects(sqlCallStore(gone).submit([call], { ...mine, notAfter: 0 }), { code: 'STORE_UNAVAILABLE' })
      assert.equal(await sqlCallStore(database).known(call), undefined)
    }
  })

  test(`${engine}: a submission that fails after some of its calls were inserted reports an unknown outcome`, async (t) => {
    const { database } = await open(t)
    await sqlCallStore(database).submit([someCall('before', { key: 'k' })])
    let statements = 0
    const failing: Database = {
      ...database,
      async query(sql, parameters) {
        statements += 1
        if (statements === 1) return database.query(sql, parameters)
        throw new ToolError('STORE_UNAVAILABLE', 'There is no connection.', { details: { outcome: 'none' } })
      },
    }
    const submit = (callId: string) =>
      sqlCallStore(failing).submit([someCall(callId), someCall(`${callId}-again`, { key: 'k' })], mine)
    await assert.rejects(submit('entered'), { code: 'STORE_UNAVAILABLE', details: { outcome: 'unknown' } })
    assert.notEqual(await sqlCallStore(database).known(someCall('entered')), undefined)
    await assert.rejects(submit('refused'), { code: 'STORE_UNAVAILABLE', details: { outcome: 'none' } })
  })

  test(`${engine}: listeners are notified of calls to claim, ended calls, cancellations and callbacks`, async (t) => {
    const { database, other } = await open(t)
    const heard: string[] = []
    for (const channel of ['gantry_ready', 'gantry_done', 'gantry_cancel', 'gantry_outbox']) {
      await other.listen(channel, (payload) => heard.push(`${channel} ${payload}`))
    }
    const { store, pass } = await sqlFixture(database, other)
    const until = async (line: string): Promise<void> => {
      while (!heard.includes(line)) await new Promise((resolve) => setTimeout(resolve, 1))
    }
    /** Notifications arrive in commit order: when this one is here, so are all before it. */
    const news = async (): Promise<string[]> => {
      await database.query(`select pg_notify('gantry_done', 'all')`)
      await until('gantry_done all')
      return heard.splice(0).filter((line) => line !== 'gantry_done all')
    }
    await store.submit([someCall('mine')], mine)
    await store.submit([someCall('late', { delayMs: 60_000 })])
    assert.deepEqual(await news(), [])
    await store.submit([someCall('a', { callback: 'https://a.b' }), someCall('b')])
    assert.deepEqual(await news(), ['gantry_ready '])
    const claims = await store.claim(10, mine)
    assert.deepEqual(await news(), [])
    await store.cancel('a', 'acme')
    await store.cancel('late', 'acme')
    await until('gantry_done late')
    assert.deepEqual(await news(), ['gantry_cancel a', 'gantry_done late'])
    await store.finish(claims.slice(0, 1).map((claim) => someEnding(claim)))
    await until('gantry_done a')
    assert.deepEqual((await news()).sort(), ['gantry_done a', 'gantry_outbox '])
    await store.release(claims.slice(1))
    assert.deepEqual(await news(), ['gantry_ready '])
    await pass(11_000)
    await store.reclaim({ max: 10 })
    assert.deepEqual(await news(), ['gantry_ready '])
    await store.submit(manyCalls(2, { slot: { key: 's', limit: 1 } }))
    assert.deepEqual(await news(), ['gantry_ready '])
    await store.finish((await store.claim(10, mine)).map((claim) => someEnding(claim)))
    await until('gantry_done b,c0000,mine')
    assert.deepEqual((await news()).sort(), ['gantry_done b,c0000,mine', 'gantry_ready '])
  })

  test(`${engine}: many calls that end together are announced in notifications below 8000 bytes`, async (t) => {
    const { database, other } = await open(t)
    const heard: string[] = []
    await other.listen('gantry_done', (payload) => heard.push(payload ?? ''))
    const { store } = await sqlFixture(database, other)
    const calls = manyCalls(600).map((call) => ({ ...call, callId: `${call.callId}-${'ü'.repeat(20)}` }))
    await store.submit(calls)
    await store.finish((await store.claim(600, mine)).map((claim) => someEnding(claim)))
    const announced = (): string[] => heard.flatMap((payload) => payload.split(','))
    while (announced().length < 600) await new Promise((resolve) => setTimeout(resolve, 1))
    assert.deepEqual(
      announced().sort(),
      calls.map(({ callId }) => callId),
    )
    assert.ok(heard.length > 3 && heard.every((payload) => Buffer.byteLength(payload) < 8_000))
  })

  test(`${engine}: reclaim gives a free slot to a call that waits for it`, async (t) => {
    const { database, other } = await open(t)
    const { store } = await sqlFixture(database, other)
    for (const key of ['p', 'q', 'r']) {
      await store.submit(
        manyCalls(3, { slot: { key, limit: 2 } }).map((call) => ({ ...call, callId: key + call.callId })),
      )
    }
    await database.query(`delete from queue where call_id in ('pc0000', 'rc0000', 'rc0001')`)
    assert.equal((await store.claim(10, mine)).length, 3)
    await store.reclaim({ max: 10 })
    const claims = await store.claim(10, mine)
    assert.deepEqual(claims.map(({ callId }) => callId).sort(), ['pc0002', 'rc0002'])
  })

  test(`${engine}: the store does not end a call that is claimed, or lost by its worker, while it prepares the outcome`, async (t) => {
    const { database, other } = await open(t)
    const { store, pass, records } = await sqlFixture(database, other)
    const claimFirst = async () => void (await store.claim(1, mine))
    const loseFirst = async (): Promise<void> => {
      await store.claim(1, mine)
      await pass(11_000)
      await store.reclaim({ max: 10 })
    }
    for (const [index, meanwhile] of [claimFirst, loseFirst].entries()) {
      await store.submit([someCall(`cancelled-${index}`)])
      assert.equal(await sqlCallStore(interrupted(database, meanwhile)).cancel(`cancelled-${index}`, 'acme'), 'asked')
      await store.submit([someCall(`late-${index}`, { deadlineMs: 1, priority: 1 })])
      await pass(1_000)
      const late = sqlCallStore(interrupted(database, meanwhile))
      assert.deepEqual((await late.reclaim({ max: 10 })).expired, [])
      await store.reclaim({ max: 10, leases: 'all' })
      await store.finish((await store.claim(10, mine)).map((claim) => someEnding(claim)))
    }
    assert.deepEqual(
      (await records()).results.map(({ status }) => status),
      ['ok', 'ok', 'ok', 'ok'],
    )
  })
}

test('PostgreSQL: workers that extend, begin and complete the same calls in different orders do not deadlock', async (t) => {
  const { database, other } = await engines.PostgreSQL(t)
  const { store, other: there, records } = await sqlFixture(database, other)
  await store.submit(manyCalls(20))
  const claims = await store.claim(20, mine)
  const back = claims.toReversed()
  await whileLocked(database, `select from queue where call_id = 'c0010' for update`, 2, () =>
    Promise.all([store.extend(claims, 10_000), there.begin(back)]),
  )
  await whileLocked(database, `select from queue where call_id = 'c0010' for update`, 2, () =>
    Promise.all([there.extend(claims, 10_000), store.finish(back.map((claim) => someEnding(claim)))]),
  )
  assert.equal((await records()).results.length, 20)
})

test('PostgreSQL: submissions of the same idempotency keys in different orders do not deadlock', async (t) => {
  const { database, other } = await engines.PostgreSQL(t)
  const { store, other: there } = await sqlFixture(database, other)
  const calls = manyCalls(20).map((call) => ({ ...call, key: call.callId }))
  const again = calls.toReversed().map((call) => ({ ...call, callId: `again-${call.callId}` }))
  const insert = `
    insert into calls (call_id, kind, tenant, principal, identity, idem_key, fingerprint, tool, effect, payload_bytes)
    values ('x', 'call', 'acme', 'ada', '{}', 'c0010', 'f', 't', 'read', 1)`
  const answers = await whileLocked(database, insert, 2, () => Promise.all([store.submit(calls), there.submit(again)]))
  const kinds = answers?.flat().map(({ kind }) => kind) ?? []
  assert.equal(kinds.filter((kind) => kind === 'new').length, 20)
  assert.equal(kinds.filter((kind) => kind === 'duplicate').length, 20)
})

/** The database, with `meanwhile` run after its first statement. */
function interrupted(database: Database, meanwhile: () => Promise<void>): Database {
  let first = true
  return {
    ...database,
    async query<R extends Row>(sql: string, parameters?: readonly unknown[]) {
      const rows = await database.query<R>(sql, parameters)
      if (first) await meanwhile()
      first = false
      return rows
    },
  }
}

/** Starts work while `sql` holds locks in a transaction, and rolls that back once `waiting` statements wait for it. */
async function whileLocked<T extends readonly unknown[]>(
  database: Database,
  sql: string,
  waiting: number,
  start: () => Promise<T>,
): Promise<T | undefined> {
  const undone = new Error('undone')
  let work: Promise<T> | undefined
  await assert.rejects(
    database.transaction(async (queries) => {
      await queries.query(sql)
      work = start()
      // A rejection is handled where it is awaited below.
      work.catch(() => undefined)
      for (let found = 0; found < waiting; ) {
        // Outside the transaction, because within one pg_stat_activity is read only once.
        const waits = await database.query(
          `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        )
        found = waits.length
      }
      throw undone
    }),
    (error) => error === undone,
  )
  return work
}
