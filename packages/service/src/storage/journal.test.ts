import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { pgliteDatabase, postgresDatabase } from '../../test/databases.fixture.ts'
import type { Database } from './databases/database.ts'
import { journalRecords } from './journal.ts'

const engines: { readonly [name: string]: (t: TestContext) => Promise<Database> } = {
  pglite: pgliteDatabase,
  postgres: async (t) => (await postgresDatabase(t)).database,
}

async function queued(database: Database, callId: string): Promise<void> {
  await database.query('insert into queue (call_id, tenant, fence) values ($1, $2, 1)', [callId, 'lab'])
}

async function takeOver(database: Database, callId: string): Promise<void> {
  await database.query('update queue set fence = fence + 1 where call_id = $1', [callId])
}

for (const [name, open] of Object.entries(engines)) {
  test(`${name} keeps a journal`, async (t) => {
    const database = await open(t)
    await t.test('entries are read back exactly as they were written', async () => {
      const journal = journalRecords(database)
      const holder = { callId: 'w', fence: 1 }
      await queued(database, 'w')
      assert.deepEqual([...(await journal.read('w'))], [])
      const text = JSON.stringify({ text: `\u0000 \ud800 ' " \\ é 🚀 ${'x'.repeat(100_000)}`, n: 1e300 })
      assert.equal(await journal.begin(holder, 'one'), true)
      assert.equal(await journal.begin(holder, 'two.0'), true)
      assert.equal(await journal.done(holder, 'two.0', text), true)
      assert.equal(await journal.done(holder, 'three', '{}'), true)
      assert.deepEqual(Object.fromEntries(await journal.read('w')), {
        one: { state: 'begun' },
        'two.0': { state: 'done', result: text },
        three: { state: 'done', result: '{}' },
      })
      assert.deepEqual([...(await journal.read('other'))], [])
    })

    await t.test('a write can be repeated, and no later write replaces or removes a finished entry', async () => {
      const journal = journalRecords(database)
      const holder = { callId: 'x', fence: 1 }
      await queued(database, 'x')
      for (const end of ['first', 'first', 'second']) assert.equal(await journal.done(holder, 'one', end), true)
      assert.equal(await journal.begin(holder, 'one'), true)
      assert.equal(await journal.forget(holder, 'one'), true)
      assert.deepEqual([...(await journal.read('x'))], [['one', { state: 'done', result: 'first' }]])
      for (let time = 0; time < 2; time++) assert.equal(await journal.begin(holder, 'two'), true)
      for (let time = 0; time < 2; time++) assert.equal(await journal.forget(holder, 'two'), true)
      assert.equal((await journal.read('x')).size, 1)
    })

    await t.test('writeAll writes all entries or none', async () => {
      const journal = journalRecords(database)
      await queued(database, 'v')
      const entries = [{ entry: 'one', result: '1' }, { entry: 'two' }]
      assert.equal(await journal.writeAll({ callId: 'v', fence: 2 }, entries), false)
      assert.equal((await journal.read('v')).size, 0)
      const holder = { callId: 'v', fence: 1 }
      for (let time = 0; time < 2; time++) assert.equal(await journal.writeAll(holder, entries), true)
      assert.equal(await journal.writeAll(holder, [{ entry: 'one' }, { entry: 'two', result: '2' }]), true)
      assert.deepEqual(Object.fromEntries(await journal.read('v')), {
        one: { state: 'done', result: '1' },
        two: { state: 'done', result: '2' },
      })
    })

    await t.test('a write under another fence, or of an ended call, is refused', async () => {
      const journal = journalRecords(database)
      await queued(database, 'y')
      assert.equal(await journal.begin({ callId: 'y', fence: 1 }, 'one'), true)
      await takeOver(database, 'y')
      for (const fence of [0, 1, 3]) {
        const holder = { callId: 'y', fence }
        assert.equal(await journal.begin(holder, 'two'), false)
        assert.equal(await journal.done(holder, 'one', '{}'), false)
        assert.equal(await journal.forget(holder, 'one'), false)
      }
      assert.deepEqual([...(await journal.read('y'))], [['one', { state: 'begun' }]])
      assert.equal(await journal.done({ callId: 'y', fence: 2 }, 'one', '{}'), true)
      await database.query('delete from queue where call_id = $1', ['y'])
      assert.equal(await journal.done({ callId: 'y', fence: 2 }, 'two', '{}'), false)
      assert.equal((await journal.read('y')).size, 1)
    })

    await t.test('concurrent writes are batched, and each is checked against its own fence', async () => {
      let statements = 0
      const counted: Pick<Database, 'query'> = {
        query: (sql, parameters) => {
          statements += 1
          return database.query(sql, parameters)
        },
      }
      const journal = journalRecords(counted)
      await queued(database, 'z')
      await queued(database, 'zz')
      await takeOver(database, 'zz')
      const entries = Array.from({ length: 8 }, (_, index) => `each.${index}`)
      const held = await Promise.all(
        entries.flatMap((entry) => ['z', 'zz'].map((callId) => journal.done({ callId, fence: 1 }, entry, '{}'))),
      )
      assert.deepEqual(
        held,
        entries.flatMap(() => [true, false]),
      )
      assert.equal(statements, 2)
      assert.deepEqual([...(await journal.read('z')).keys()].toSorted(), entries)
      assert.equal((await journal.read('zz')).size, 0)
    })
  })
}

test('postgres: a journal write and a claim of the same call exclude each other', async (t) => {
  const { database } = await postgresDatabase(t)
  await queued(database, 'a')
  const claimable = async () =>
    (await database.query('select 1 from queue where call_id = $1 for update skip locked', ['a'])).length === 1
  assert.equal(await claimable(), true)
  await database.transaction(async (queries) => {
    assert.equal(await journalRecords(queries).begin({ callId: 'a', fence: 1 }, 'one'), true)
    assert.equal(await claimable(), false)
  })
  assert.equal(await claimable(), true)
  const late = await database.transaction(async (queries) => {
    await queries.query('update queue set fence = 2 where call_id = $1', ['a'])
    const writing = journalRecords(database).begin({ callId: 'a', fence: 1 }, 'two')
    await waiting(database)
    return { writing }
  })
  assert.equal(await late.writing, false)
  assert.deepEqual([...(await journalRecords(database).read('a')).keys()], ['one'])
})

/** Resolves once a statement waits for a lock. */
async function waiting(database: Database): Promise<void> {
  const sql = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
  while ((await database.query(sql)).length === 0) await new Promise((resolve) => setImmediate(resolve))
}
