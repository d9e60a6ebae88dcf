import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import type { Database } from '../storage/databases/database.ts'

/** The error that work ends with. */
export async function failure(work: Promise<unknown>): Promise<ToolError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  assert.ok(ToolError.is(error), String(error))
  return error
}

/** The contract of Database; `open` gives a fresh, migrated one that the test's end closes. */
export function testDatabase(name: string, open: (t: TestContext) => Promise<Database>): void {
  const withTable = async (t: TestContext): Promise<Database> => {
    const database = await open(t)
    await database.query('create table words (id bigint primary key, word text)')
    return database
  }
  const count = async (database: Database): Promise<unknown> =>
    (await database.query('select count(*) as n from words'))[0]?.n

  test(`${name}: values come as numbers, texts, booleans, dates and null`, async (t) => {
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

  test(`${name}: many rows go in as one JSON text, and out in order`, async (t) => {
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

  test(`${name}: a text of megabytes goes in and out whole`, async (t) => {
    const database = await open(t)
    const text = 'x€'.repeat(2_000_000)
    const [row] = await database.query('select $1::text as text, length($1::text) as length', [text])
    assert.equal(row?.length, 4_000_000)
    assert.ok(row?.text === text)
  })

  test(`${name}: our tables are found without their schema`, async (t) => {
    const database = await open(t)
    assert.deepEqual(await database.query('select call_id from calls'), [])
    const [row] = await database.query(`select current_schema() as schema`)
    assert.equal(row?.schema, 'gantry')
  })

  test(`${name}: a statement that is wrong is INTERNAL with the reason as its cause, and others go on`, async (t) => {
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

  test(`${name}: a transaction is done whole`, async (t) => {
    const database = await withTable(t)
    const value = await database.transaction(async (queries) => {
      await queries.query('insert into words values ($1, $2)', [1, 'one'])
      const rows = await queries.query('insert into words values ($1, $2) returning word', [2, 'two'])
      return rows[0]?.word
    })
    assert.equal(value, 'two')
    assert.equal(await count(database), 2)
  })

  test(`${name}: a transaction whose work rejects does nothing, and rejects with the same`, async (t) => {
    const database = await withTable(t)
    const reason = new Error('enough')
    const work = database.transaction(async (queries) => {
      await queries.query('insert into words values (1, null)')
      throw reason
    })
    await assert.rejects(work, (error) => error === reason)
    assert.equal(await count(database), 0)
  })

  test(`${name}: a transaction that goes on after a failed statement is not taken for done`, async (t) => {
    const database = await withTable(t)
    const work = database.transaction(async (queries) => {
      await queries.query('insert into words values (1, null)')
      await queries.query('selec 1').catch(() => {})
    })
    assert.equal((await failure(work)).code, 'INTERNAL')
    assert.equal(await count(database), 0)
  })

  test(`${name}: a transaction that has ended takes no more statements`, async (t) => {
    const database = await withTable(t)
    const kept = await database.transaction(async (queries) => queries)
    assert.equal((await failure(kept.query('insert into words values (1, null)'))).code, 'INTERNAL')
    assert.equal(await count(database), 0)
  })

  test(`${name}: statements beside an open transaction neither join it nor see its rows`, async (t) => {
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

  test(`${name}: many statements at once are all done`, async (t) => {
    const database = await withTable(t)
    await Promise.all(
      Array.from({ length: 300 }, (_, id) => database.query('insert into words values ($1, $2)', [id, 'x'])),
    )
    assert.equal(await count(database), 300)
  })

  test(`${name}: a listener hears what is said on its channel, after the transaction that said it`, async (t) => {
    const database = await open(t)
    const heard: unknown[] = []
    const all = Promise.withResolvers<void>()
    await database.listen('gantry_other', () => assert.fail('nobody said anything here'))
    await database.listen('gantry_ready', (payload) => {
      heard.push(payload)
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
    assert.deepEqual(heard, ['', 'last'])
  })

  test(`${name}: each listener hears until it goes, whoever else listens`, async (t) => {
    const database = await open(t)
    const heard: string[] = []
    const told = { first: Promise.withResolvers<void>(), second: Promise.withResolvers<void>() }
    const leave = await database.listen('gantry_ready', (payload) => {
      heard.push(`one ${payload}`)
      told.first.resolve()
    })
    await database.listen('gantry_ready', (payload) => {
      heard.push(`two ${payload}`)
      if (payload === 'b') told.second.resolve()
    })
    await database.query(`select pg_notify('gantry_ready', $1)`, ['a'])
    await told.first.promise
    await leave()
    await leave()
    await database.query(`select pg_notify('gantry_ready', $1)`, ['b'])
    await told.second.promise
    assert.deepEqual(heard, ['one a', 'two a', 'two b'])
  })

  test(`${name}: once closed, twice is harmless, and everything is refused as not done`, async (t) => {
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

  test(`${name}: closing lets a statement end that runs, and refuses those that wait`, async (t) => {
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
