import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import type { Database } from '../storage/databases/database.ts'

/** The error that `work` rejects with. */
export async function failure(work: Promise<unknown>): Promise<ToolError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  assert.ok(ToolError.is(error), String(error))
  return error
}

/** The contract of Database. `open` gives a new, migrated database that is closed after the test. */
export function testDatabase(name: string, open: (t: TestContext) => Promise<Database>): void {
  const withTable = async (t: TestContext): Promise<Database> => {
    const database = await open(t)
    await database.query('create table words (id bigint primary key, word text)')
    return database
  }
  const count = async (database: Database): Promise<unknown> =>
    (await database.query('select count(*) as n from words'))[0]?.n

  test(`${name}: columns are read as numbers, strings, booleans, dates, arrays and null`, async (t) => {
    const database = await open(t)
    const rows = await database.query(
      `select $1::bigint as big, $2::integer as small, 1.5::float8 as part, $3::text as word, $4::boolean as yes,
        $5::timestamptz as at, null as nothing, '{"a":[1]}'::text as json, $6::text[] as words`,
      [2 ** 53 - 1, 7, 'é’\u{1f600}', true, '2026-01-02T03:04:05.678Z', ['a', 'b"c']],
    )
    assert.deepEqual(
      { ...rows[0] },
      {
        big: 2 ** 53 - 1,
        small: 7,
        part: 1.5,
        word: 'é’\u{1f600}',
        yes: true,
        at: new Date('2026-01-02T03:04:05.678Z'),
        nothing: null,
        json: '{"a":[1]}',
        words: ['a', 'b"c'],
      },
    )
  })

  test(`${name}: many rows can be inserted as one JSON parameter`, async (t) => {
    const database = await withTable(t)
    const rows = Array.from({ length: 2_000 }, (_, id) => ({ id, word: `word ${id}`.repeat(50) }))
    const added = await database.query(
      `insert into words select d.id, d.word from json_to_recordset($1::json) as d(id bigint, word text)
        returning id`,
      [JSON.stringify(rows)],
    )
    assert.equal(added.length, 2_000)
    assert.deepEqual(
      (await database.query('select * from words order by id')).map((row) => ({ ...row })),
      rows,
    )
  })

  test(`${name}: a text of several megabytes is passed in and out unchanged`, async (t) => {
    const database = await open(t)
    const text = 'x€'.repeat(2_000_000)
    const [row] = await database.query('select $1::text as text, length($1::text) as length', [text])
    assert.equal(row?.length, 4_000_000)
    assert.ok(row?.text === text)
  })

  test(`${name}: tables of the schema gantry are found without its name`, async (t) => {
    const database = await open(t)
    assert.deepEqual(await database.query('select call_id from calls'), [])
    const [row] = await database.query(`select current_schema() as schema`)
    assert.equal(row?.schema, 'gantry')
  })

  test(`${name}: a wrong statement is INTERNAL with the database error as its cause`, async (t) => {
    const database = await withTable(t)
    await database.query('insert into words values ($1, $2)', [1, 'one'])
    const wrong = [
      () => database.query('selec 1'),
      () => database.query('select $1::integer', ['seven']),
      () => database.query('insert into words values ($1, $2)', [1, 'again']),
      () => database.transaction((queries) => queries.query('selec 1')),
    ]
    for (const work of wrong) {
      const error = await failure(work())
      assert.equal(error.code, 'INTERNAL')
      assert.equal(error.details?.outcome, 'none')
      assert.ok(error.cause instanceof Error)
    }
    assert.equal(await count(database), 1)
  })

  test(`${name}: a transaction commits all its statements and returns the value of its work`, async (t) => {
    const database = await withTable(t)
    const value = await database.transaction(async (queries) => {
      await queries.query('insert into words values ($1, $2)', [1, 'one'])
      const rows = await queries.query('insert into words values ($1, $2) returning word', [2, 'two'])
      return rows[0]?.word
    })
    assert.equal(value, 'two')
    assert.equal(await count(database), 2)
  })

  test(`${name}: a transaction whose work rejects is rolled back and rejects with the same error`, async (t) => {
    const database = await withTable(t)
    const reason = new Error('enough')
    const work = database.transaction(async (queries) => {
      await queries.query('insert into words values (1, null)')
      throw reason
    })
    await assert.rejects(work, (error) => error === reason)
    assert.equal(await count(database), 0)
  })

  test(`${name}: a transaction that ignores a failed statement is rolled back and rejects`, async (t) => {
    const database = await withTable(t)
    const work = database.transaction(async (queries) => {
      await queries.query('insert into words values (1, null)')
      await queries.query('selec 1').catch(() => {})
    })
    assert.equal((await failure(work)).code, 'INTERNAL')
    assert.equal(await count(database), 0)
  })

  test(`${name}: an ended transaction refuses statements`, async (t) => {
    const database = await withTable(t)
    const kept = await database.transaction(async (queries) => queries)
    assert.equal((await failure(kept.query('insert into words values (1, null)'))).code, 'INTERNAL')
    assert.equal(await count(database), 0)
  })

  test(`${name}: statements outside an open transaction do not join it`, async (t) => {
    const database = await withTable(t)
    const begun = Promise.withResolvers<void>()
    const beside = begun.promise.then(() => database.query('insert into words values (2, null)'))
    const work = database.transaction(async (queries) => {
      await queries.query('insert into words values (1, null)')
      begun.resolve()
      assert.equal((await queries.query('select 1 from words where id = 1')).length, 1)
      throw new Error('undone')
    })
    await assert.rejects(work, /undone/)
    await beside
    assert.deepEqual(
      (await database.query('select id from words')).map(({ id }) => id),
      [2],
    )
  })

  test(`${name}: many concurrent statements all succeed`, async (t) => {
    const database = await withTable(t)
    await Promise.all(
      Array.from({ length: 300 }, (_, id) => database.query('insert into words values ($1, $2)', [id, 'x'])),
    )
    assert.equal(await count(database), 300)
  })

  test(`${name}: a listener gets the notifications of its channel once their transaction is committed`, async (t) => {
    const database = await open(t)
    const received: unknown[] = []
    const all = Promise.withResolvers<void>()
    await database.listen('gantry_other', () => assert.fail('there was no notification on this channel'))
    await database.listen('gantry_ready', (payload) => {
      received.push(payload)
      if (payload === 'last') all.resolve()
    })
    await database.query('notify gantry_ready')
    await database
      .transaction(async (queries) => {
        await queries.query(`select pg_notify('gantry_ready', $1)`, ['undone'])
        throw new Error('undone')
      })
      .catch(() => {})
    await database.query(`select pg_notify('gantry_ready', $1)`, ['last'])
    await all.promise
    assert.deepEqual(received, ['', 'last'])
  })

  test(`${name}: each listener is notified until it is removed, independently of others`, async (t) => {
    const database = await open(t)
    const received: string[] = []
    const notified = { first: Promise.withResolvers<void>(), second: Promise.withResolvers<void>() }
    const leave = await database.listen('gantry_ready', (payload) => {
      received.push(`one ${payload}`)
      notified.first.resolve()
    })
    await database.listen('gantry_ready', (payload) => {
      received.push(`two ${payload}`)
      if (payload === 'b') notified.second.resolve()
    })
    await database.query(`select pg_notify('gantry_ready', $1)`, ['a'])
    await notified.first.promise
    await leave()
    await leave()
    await database.query(`select pg_notify('gantry_ready', $1)`, ['b'])
    await notified.second.promise
    assert.deepEqual(received, ['one a', 'two a', 'two b'])
  })

  test(`${name}: close() can be repeated, and later statements are STORE_UNAVAILABLE with outcome none`, async (t) => {
    const database = await open(t)
    await database.listen('gantry_ready', () => {})
    await Promise.all([database.close(), database.close()])
    await database.close()
    const late = [
      () => database.query('select 1'),
      () => database.transaction(async () => {}),
      () => database.listen('gantry_ready', () => {}),
    ]
    for (const work of late) {
      const error = await failure(work())
      assert.equal(error.code, 'STORE_UNAVAILABLE')
      assert.equal(error.details?.outcome, 'none')
    }
  })

  test(`${name}: close() lets a running statement finish and refuses waiting ones`, async (t) => {
    const database = await open(t)
    const running = database.query('select pg_sleep(0.2)')
    const waiting = Array.from({ length: 50 }, () => database.query('select 1').catch((error: ToolError) => error.code))
    await database.close()
    await running
    const ends = new Set(
      await Promise.all(waiting.map(async (end) => (typeof (await end) === 'string' ? await end : 'done'))),
    )
    ends.delete('done')
    assert.deepEqual([...ends], ['STORE_UNAVAILABLE'])
  })
}
