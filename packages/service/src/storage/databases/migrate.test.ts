import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { pgliteDatabase, postgresDatabase } from '../../../test/databases.fixture.ts'
import { failure } from '../../conformance/database.ts'
import type { Database } from './database.ts'
import { type Migration, migrate, ownMigrations } from './migrate.ts'
import { openPostgres } from './postgres.ts'

const drivers: readonly [string, (t: TestContext) => Promise<Database>][] = [
  ['postgres', async (t) => (await postgresDatabase(t)).database],
  ['pglite', pgliteDatabase],
]

/** The migrations of this version, followed by those of a later one. */
function later(...sql: readonly string[]): readonly Migration[] {
  const own = ownMigrations()
  return [...own, ...sql.map((text, index) => ({ number: own.length + index + 1, sql: text }))]
}

async function numbers(database: Database): Promise<unknown[]> {
  return (await database.query('select number from migrations order by number')).map(({ number }) => number)
}

for (const [name, open] of drivers) {
  test(`${name}: each migration is applied once, in order`, async (t) => {
    const database = await open(t)
    const migrations = later('create table words (word text)', `insert into words values ('one')`)
    await migrate(database, migrations)
    await migrate(database, migrations)
    assert.deepEqual(
      await numbers(database),
      migrations.map(({ number }) => number),
    )
    assert.equal((await database.query('select word from words')).length, 1)
  })

  test(`${name}: a failed migration is rolled back, and those before it stay applied`, async (t) => {
    const database = await open(t)
    const own = ownMigrations().length
    const migrations = later('create table words (word text)', 'create table more (id integer); selec 1')
    assert.equal((await failure(migrate(database, migrations))).code, 'INTERNAL')
    assert.equal((await numbers(database)).length, own + 1)
    assert.deepEqual(await database.query(`select to_regclass('more') as more`), [{ more: null }])
  })

  test(`${name}: a database of a later version is accepted, one with a gap is not`, async (t) => {
    const database = await open(t)
    await migrate(database, later('create table words (word text)'))
    await migrate(database)
    await database.query('insert into migrations (number) values (99)')
    const error = await failure(migrate(database))
    assert.equal(error.code, 'CONFIG_INVALID')
    assert.match(error.message, /^Migration \d+ of the database is missing/)
  })

  test(`${name}: migration 20 counts content stored before once, and frees it when its last artifact is removed`, async (t) => {
    const database = await open(t)
    await database.query('drop schema gantry cascade')
    await migrate(database, ownMigrations().slice(0, 19))
    const add = (id: string, principal: string, digest: string) =>
      database.query(`select store_artifact($1, 'acme', $2, 'c', 1, 'a', 't', 100, $3, 1000, 10, 1000, 10)`, [
        id,
        principal,
        digest,
      ])
    await add('a', 'ann', 'same')
    await add('b', 'ann', 'same')
    await add('c', 'bob', 'same')
    await add('d', 'bob', 'other')
    const usage = async () =>
      (await database.query('select principal, bytes::int, files::int from stored_usage order by principal')).map(
        (row) => Object.values(row).join(' '),
      )
    assert.deepEqual(await usage(), [' 400 4', 'ann 200 2', 'bob 200 2'])
    await migrate(database)
    assert.deepEqual(await usage(), [' 200 4', 'ann 100 2', 'bob 200 2'])
    await add('e', 'ann', 'other')
    assert.deepEqual(await usage(), [' 200 5', 'ann 200 3', 'bob 200 2'])
    // A statement of the previous version that started before the migration and ends after it.
    await database.query(`
      insert into artifacts (id, tenant, principal, call_id, fence, name, mime_type, bytes, digest)
      values ('f', 'acme', 'ann', 'c', 1, 'a', 't', 100, 'late');
      update stored_usage set bytes = bytes + 100, files = files + 1 where principal in ('', 'ann')`)
    await database.query(`delete from artifacts where id in ('a', 'c', 'f')`)
    assert.deepEqual(await usage(), [' 200 3', 'ann 200 2', 'bob 100 1'])
    await database.query('delete from artifacts')
    assert.deepEqual([await usage(), await database.query('select from stored_digests')], [[], []])
  })

  test(`${name}: migration 12 copies the journal of the original to a redriven call that has not ended`, async (t) => {
    const database = await open(t)
    await database.query('drop schema gantry cascade')
    await migrate(database, ownMigrations().slice(0, 11))
    const call = `insert into calls
      (call_id, kind, tenant, principal, identity, fingerprint, tool, effect, payload_bytes, redrive_of, effect_key)
      values ($1, $2, 't', 'p', '{}', '', 'x', 'repeatable', 0, $3, $4)`
    for (const [id, kind] of Object.entries({ a: 'code', b: 'code', ended: 'chain' })) {
      await database.query(call, [id, kind, ...(id === 'a' ? [null, null] : ['a', 'a'])])
    }
    await database.query(`insert into queue (call_id, tenant) values ('b', 't')`)
    await database.query(`insert into journal (call_id, entry, state, fence, result)
      values ('a', '1', 'done', 2, 'one'), ('a', '2', 'begun', 2, null), ('a', '3', 'begun', 2, null),
        ('b', '3', 'done', 1, 'three')`)
    await migrate(database)
    const journal = await database.query(`select entry, state, result from journal where call_id = 'b' order by entry`)
    assert.deepEqual(journal, [
      { entry: '1', state: 'done', result: 'one' },
      { entry: '2', state: 'begun', result: null },
      { entry: '3', state: 'done', result: 'three' },
    ])
    assert.deepEqual(await database.query(`select entry from journal where call_id = 'ended'`), [])
  })
}

test('concurrent processes apply each migration once', async (t) => {
  const { database, url } = await postgresDatabase(t)
  const others = await Promise.all(Array.from({ length: 4 }, () => openPostgres({ url })))
  t.after(() => Promise.all(others.map((other) => other.close())))
  const migrations = later('create table words (word text)', `insert into words values ('one')`)
  await Promise.all(others.map((other) => migrate(other, migrations)))
  assert.equal((await database.query('select word from words')).length, 1)
})

test('an empty database gets its schema and all tables, also when several processes start at once', async (t) => {
  const { database, url } = await postgresDatabase(t)
  await database.query('drop schema gantry cascade')
  const others = await Promise.all(Array.from({ length: 4 }, () => openPostgres({ url })))
  t.after(() => Promise.all(others.map((other) => other.close())))
  await Promise.all(others.map((other) => migrate(other)))
  assert.equal((await numbers(database)).length, ownMigrations().length)
  assert.deepEqual(await database.query('select call_id from calls'), [])
})
