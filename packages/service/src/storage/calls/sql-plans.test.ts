import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { postgresDatabase } from '../../../test/databases.fixture.ts'
import { manyCalls, mine, someCall, someEnding } from '../../conformance/call-store/samples.ts'
import type { Database } from '../databases/database.ts'
import { openPostgres } from '../databases/postgres.ts'
import { plainOf } from './call-facts.ts'
import type { AdmittedCall, CallStore } from './call-store.ts'
import { sqlCallStore } from './sql.ts'

/** The number of unrelated calls; a plan that reads all of them for a few is wrong. */
const crowd = 2_000
const few = 5
/** The most rows and index entries that an operation on a few calls may read. */
const enough = 200

const inAnHour = `now() + interval '1 hour'`
const held = { fence: '1', lease_until: inAnHour, worker: `'w'` }

/** Kinds of calls that are completed by statements of their own, one for a single call and one for many. */
const forms: { readonly [name: string]: Partial<AdmittedCall> } = {
  plain: {},
  answered: { reply: { codec: 'native', transport: 'redis', to: 'answers', data: {} } },
}

/** States of the tables when statements are planned. A connection keeps its generic plans for long. */
const beginnings: { readonly [name: string]: (database: Database) => Promise<void> } = {
  'the tables were not analyzed': async () => {},
  'the tables were empty': (database) => prepared(database, 'vacuum analyze'),
  'a few calls waited': async (database) => {
    await sqlCallStore(database.asService()).submit(manyCalls(few))
    await prepared(database, 'vacuum analyze')
  },
  'all calls waited': async (database) => {
    await addCrowd(database, 'waits')
    await prepared(database, 'analyze')
  },
  'all calls were leased': async (database) => {
    await addCrowd(database, 'waits', held)
    await prepared(database, 'analyze')
  },
}

for (const [name, begin] of Object.entries(beginnings)) {
  test(`a statement planned when ${name} still reads few rows after the tables have changed`, async (t) => {
    const { database, url } = await oneConnection(t)
    await rememberAll(t, url)
    const store = sqlCallStore(database.asService())
    await begin(database)
    await plan(store)
    await addCrowd(database, 'also waits')
    await addCrowd(database, 'held', held)
    await addCrowd(database, 'ended-late', { lane: `'later'`, run_at: inAnHour })
    await addCrowd(database, 'asked', { lane: `'asked'`, run_at: inAnHour })
    await addCrowd(database, 'timed', { deadline: inAnHour })
    await addCrowd(database, 'slot', { lane: `'held'`, slot_key: `'s'`, slot_limit: '1' })
    const read = async (what: string, work: () => Promise<unknown>, most = enough): Promise<void> => {
      const before = await reads(database)
      await work()
      const rows = (await reads(database)) - before
      assert.ok(rows < most, `${what} read ${rows} rows`)
    }
    const calls = manyCalls(few, { priority: 9 }).map((call) => ({
      ...call,
      callId: `own-${call.callId}`,
      key: call.callId,
    }))
    await read('submit', () => store.submit(calls))
    await read('a second submit', () =>
      store.submit(calls.map((call) => ({ ...call, callId: `${call.callId}-again` }))),
    )
    await read('submit with a slot', () => store.submit([someCall('slotted', { slot: { key: 's', limit: 1 } })]))
    const claims = await store.claim(few, mine)
    assert.equal(claims.length, few)
    await read('begin', () => store.begin(claims))
    await read('extend', () => store.extend(claims, 10_000))
    await read('release', () => store.release(claims))
    await read('claim', () => store.claim(few, mine))
    await read('finish', () => store.finish(claims.map((claim) => someEnding({ ...claim, fence: 2 }))))
    for (const [form, given] of Object.entries(forms)) {
      for (const count of [1, few]) {
        const some = manyCalls(count, given).map((call) => ({ ...call, callId: `${form}-${count}-${call.callId}` }))
        await store.submit(some, mine)
        const ends = some.map((call) => ({ ...someEnding({ ...call, fence: 1 }), ...plainOf(call) }))
        await read(`finish of ${count} ${form}`, async () => assert.equal((await store.finish(ends)).length, count))
      }
    }
    await read('outcomes', () => store.outcomes(claims))
    await read('reclaim', () => store.reclaim({ max: few }))
    await read('cancel', () => store.cancel('also waits-7', 'acme'))
    await read('cancel of a leased call', () => store.cancel('held-7', 'acme'))
    await read('resume', () => store.resume('asked-7'))
    await read('depth', () => store.depth(few))
    await read('waiting', () => store.waiting('acme', few))
    await addCrowd(database, 'beta', {}, 'beta')
    await read('claim in turns', () => store.claim(few, mine))
    await read('claim by weight', () => store.claim(few, { ...mine, shares: { beta: { weight: 2 } } }))
    await read('claim of newcomers', () => store.claim(few, { ...mine, busy: { acme: 1 }, newcomers: true }))
    // A concurrency limit reads all leased calls, once for tenants and once for principals.
    const [row] = await database.query<{ held: number }>(
      'select count(*)::integer as held from queue where lease_until is not null',
    )
    const shares = { beta: { concurrency: 100, principals: { '*': 100 } } }
    const most = 2 * (row?.held ?? 0) + enough
    await read('claim with limits', () => store.claim(few, { ...mine, shares }), most)
  })
}

/** Opens PostgreSQL with one connection, so that every statement is planned there. */
async function oneConnection(t: TestContext): Promise<{ readonly database: Database; readonly url: string }> {
  const { url } = await postgresDatabase(t)
  const database = await openPostgres({
    url,
    connections: 1,
  })
  t.after(() => database.close())
  return { database, url }
}

/**
 * Keeps a transaction open, so that dead rows are not removed. Any client can do that, autovacuum included, and then a
 * scan also reads dead rows; `addCrowd` leaves none.
 */
async function rememberAll(t: TestContext, url: string): Promise<void> {
  const other = await openPostgres({ url, connections: 1 })
  const over = Promise.withResolvers<void>()
  const seen = Promise.withResolvers<void>()
  const open = other.transaction(async (queries) => {
    await queries.query('set transaction isolation level repeatable read')
    await queries.query('select 1')
    seen.resolve()
    await over.promise
  })
  t.after(async () => {
    over.resolve()
    // The database may have been removed already, and the transaction with it.
    await open.catch(() => undefined).finally(() => other.close())
  })
  await Promise.race([seen.promise, open])
}

async function prepared(database: Database, command: string): Promise<void> {
  await database.query(command)
}

/** Executes each statement often enough that PostgreSQL keeps a generic plan for it. */
async function plan(store: CallStore): Promise<void> {
  const missing = { callId: 'missing', fence: 1 }
  for (let time = 0; time < 7; time++) {
    await store.submit([someCall(`planned-${time}`, { key: 'planned' })])
    await store.claim(1, mine)
    await store.begin([missing])
    await store.extend([missing], 1_000)
    await store.release([missing])
    await store.finish([someEnding(missing)])
    for (const given of Object.values(forms)) {
      const plain = { ...someEnding(missing), ...plainOf(someCall('missing', given)) }
      await store.finish([plain])
      await store.finish([plain, { ...plain, fence: 2 }])
    }
    await store.outcomes([missing])
    await store.reclaim({ max: 1 })
    await store.cancel('missing', 'acme')
    await store.resume('missing')
    await store.depth(1)
    await store.waiting('acme', 1)
  }
}

/** Inserts calls in their final state, because an update would leave dead rows behind. */
async function addCrowd(
  database: Database,
  name: string,
  given: { readonly [column: string]: string } = {},
  tenant = 'acme',
): Promise<void> {
  const columns = Object.keys(given).map((column) => `, ${column}`)
  const values = Object.values(given).map((value) => `, ${value}`)
  await database.query(
    `insert into calls (call_id, kind, tenant, principal, identity, idem_key, fingerprint, tool, effect, payload_bytes)
     select $1 || '-' || i, 'call', $3, 'ada', $4, $1 || i, 'f', 'math:add:1.0.0', 'read', 2
     from generate_series(1, $2) i`,
    [name, crowd, tenant, '{}'],
  )
  await database.query(
    `insert into queue (call_id, tenant${columns.join('')})
     select $1 || '-' || i, $3${values.join('')} from generate_series(1, $2) i`,
    [name, crowd, tenant],
  )
}

/** The number of rows and index entries of user tables read so far. */
async function reads(database: Database): Promise<number> {
  await database.query('select pg_stat_force_next_flush()')
  const [row] = await database.query<{ reads: number }>(`
    select ((select sum(seq_tup_read) from pg_stat_user_tables) + (select sum(idx_tup_read) from pg_stat_user_indexes))
      ::float8 as reads`)
  return row?.reads ?? 0
}
