import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Knowledge } from '@gantry/knowledge'
import { postgresDatabase } from '../../../test/databases.fixture.ts'
import { testOnDatabases } from '../calls.fixture.ts'
import type { Database, Queries } from '../databases/database.ts'
import { knowledgeRecords } from './knowledge.ts'
import {
  addToDraftSql,
  countSql,
  dropDraftSql,
  insertChunksSql,
  type KnowledgeBounds,
  termsSql,
} from './knowledge-statements.ts'

const { signal } = new AbortController()
const limits = { documents: 1_000, bytes: 10_000_000 }
const open = (database: Database, bounds: Partial<KnowledgeBounds> = {}, most = limits): Knowledge =>
  knowledgeRecords(database, { limits: most, bounds })

async function ids(knowledge: Knowledge, query: string, more: object = {}): Promise<string[]> {
  const { items } = await knowledge.search({ query, limit: 50, ...more }, 'acme', signal)
  return items.map(({ id }) => id)
}

/** So many documents that hold a word, of which some hold others too; the last have a tag. */
async function addFruit(database: Database): Promise<void> {
  const documents = Array.from({ length: 30 }, (_, n) => ({
    id: `d${String(n).padStart(2, '0')}`,
    text: ['apple', ...(n % 10 === 9 ? ['pear'] : []), ...(n === 29 ? ['quince'] : [])].join(' '),
    tags: n < 20 ? [] : ['late'],
  }))
  await open(database).add(documents, 'acme', signal)
}

/** A text of so many pieces, each of which has a word of its own and one that all have. */
function longText(pieces: number, all: string): string {
  return Array.from({ length: pieces }, (_, n) => `${all} own${n} ${'extraordinarily '.repeat(45)}`).join('\n\n')
}

/** The same database, where somebody hears of every statement before it is done. */
function heard(database: Database, hear: (sql: string, parameters: readonly unknown[]) => Promise<void>): Database {
  const around = (queries: Queries): Queries['query'] =>
    async function query(sql, parameters = []) {
      await hear(sql, parameters)
      return queries.query(sql, parameters)
    } as Queries['query']
  return {
    ...database,
    query: around(database),
    transaction: (work) => database.transaction((queries) => work({ query: around(queries) })),
  }
}

async function counts(database: Database): Promise<unknown> {
  const [row] = await database.query(`
    select (select count(*) from knowledge_chunks) as pieces, (select coalesce(sum(chunks), 0) from knowledge) as known,
      (select count(*) from knowledge_drafts) as drafts`)
  return [Number(row?.pieces), Number(row?.known), Number(row?.drafts)]
}

testOnDatabases({
  'a search weighs no more pieces than it may, however many hold its words': async ({ database }) => {
    await addFruit(database)
    assert.equal((await ids(open(database), 'apple')).length, 30)
    assert.equal((await ids(open(database, { ranked: 5 }), 'apple')).length, 5)
    assert.equal((await ids(open(database, { ranked: 5, common: 1 }), 'apple pear')).length, 5)
  },

  'a search looks at no more pieces than it may to find those that fit': async ({ database }) => {
    await addFruit(database)
    assert.equal((await ids(open(database), 'apple', { tags: ['late'] })).length, 10)
    assert.ok((await ids(open(database, { examined: 12 }), 'apple', { tags: ['late'] })).length < 10)
    // Words of a phrase are found by the index, so that what lacks them is not even looked at.
    assert.deepEqual(await ids(open(database, { examined: 1 }), 'apple "pear quince"'), ['d29'])
  },

  'when a tenant has more than is weighed, what holds the rarest words is among it, in the same order': async ({
    database,
  }) => {
    await addFruit(database)
    const all = await ids(open(database), 'apple pear quince')
    assert.deepEqual(all.slice(0, 3), ['d29', 'd09', 'd19'])
    assert.deepEqual(await ids(open(database, { ranked: 5 }), 'apple pear quince'), all.slice(0, 3))
    assert.deepEqual(await ids(open(database, { ranked: 30 }), 'apple pear quince'), all)
  },

  'a search that nobody wants any more goes no further than the statement it is at': async ({ database }) => {
    await addFruit(database)
    const stop = new AbortController()
    const done: string[] = []
    const spied = heard(database, async (sql) => {
      done.push(sql)
      if (sql === countSql) stop.abort(new Error('cancelled'))
    })
    const searching = open(spied, { ranked: 5 }).search({ query: 'apple pear quince' }, 'acme', stop.signal)
    await assert.rejects(searching, /cancelled/)
    assert.deepEqual(done.slice(-2), [termsSql, countSql])
  },

  'a long text is added in slices, and others get their turn in between': async ({ database }) => {
    const sizes: number[] = []
    const seen: unknown[] = []
    const spied = heard(database, async (sql, parameters) => {
      if (sql !== addToDraftSql && sql !== insertChunksSql) return
      sizes.push(JSON.parse(String(parameters[1])).length)
      // On PGlite this would wait for ever if the slices were in one transaction.
      seen.push(await ids(open(database), 'common'))
    })
    const knowledge = open(spied, { slice: 4 })
    const [added] = (await knowledge.add([{ id: 'x', text: longText(11, 'common') }], 'acme', signal)).documents
    assert.deepEqual([added?.state, added?.chunks, sizes], ['added', 11, [4, 4, 3]])
    assert.deepEqual(seen, [[], [], []], 'nothing of it is found before it is whole')
    assert.equal((await ids(knowledge, 'common')).length, 11)
    assert.deepEqual(await counts(database), [11, 11, 0])
    const { text } = await knowledge.get('x', { from: 0, limit: 100 }, 'acme', signal)
    assert.equal(text, longText(11, 'common'))
  },

  'a text that is replaced by a long one is found until that is whole': async ({ database }) => {
    const seen: unknown[] = []
    const spied = heard(database, async (sql) => {
      if (sql === addToDraftSql) seen.push([await ids(open(database), 'before'), await ids(open(database), 'after')])
    })
    const knowledge = open(spied, { slice: 4 })
    for (const word of ['before', 'after']) {
      await knowledge.add([{ id: 'x', text: longText(5, word) }, { text: 'small' }], 'acme', signal)
    }
    assert.deepEqual(seen.at(-1), [Array(5).fill('x'), []])
    assert.deepEqual([await ids(knowledge, 'before'), (await ids(knowledge, 'after')).length], [[], 5])
    assert.deepEqual(await counts(database), [6, 6, 0])
    const again = await knowledge.add([{ id: 'x', text: longText(5, 'after') }], 'acme', signal)
    assert.equal(again.documents[0]?.state, 'unchanged')
    assert.equal(await knowledge.remove({ id: 'x' }, 'acme', signal), 1)
    assert.deepEqual(await counts(database), [1, 1, 0])
  },

  'an add that fails or is cancelled between slices leaves nothing': async ({ database }) => {
    const stop = new AbortController()
    for (const fail of [() => Promise.reject(new Error('away')), async () => stop.abort(new Error('cancelled'))]) {
      let slices = 0
      const failing = heard(database, async (sql) => {
        if (sql === addToDraftSql) slices += 1
        if (sql === addToDraftSql && slices === 2) await fail()
      })
      const adding = open(failing, { slice: 4 }).add([{ id: 'x', text: longText(11, 'w') }], 'acme', stop.signal)
      await assert.rejects(adding, /away|cancelled/)
      assert.deepEqual([slices, await counts(database)], [2, [0, 0, 0]])
    }
  },

  'what a process that died between slices has left is never found, and goes when others add': async ({ database }) => {
    const dying = heard(database, async (sql, parameters) => {
      const late = sql === addToDraftSql && JSON.parse(String(parameters[1]))[0].position >= 4
      if (late || sql === dropDraftSql) throw new Error('died')
    })
    const text = longText(11, 'w')
    await assert.rejects(open(dying, { slice: 4 }).add([{ id: 'x', text }], 'acme', signal), /died/)
    assert.deepEqual(await counts(database), [4, 0, 1])
    assert.deepEqual(await ids(open(database), 'w'), [])
    const other = open(database, { slice: 4 })
    await other.add([{ id: 'y', text: longText(5, 'z') }], 'umbrella', signal)
    assert.deepEqual(await counts(database), [9, 5, 1], 'it may yet live')
    await open(database, { slice: 4, draftSeconds: 0 }).add([{ id: 'x', text }], 'acme', signal)
    assert.deepEqual(await counts(database), [16, 16, 0])
    assert.equal((await ids(other, 'w')).length, 11)
  },

  'an add whose draft was taken for left behind adds nothing, and says so': async ({ database }) => {
    const swept = heard(database, async (sql, parameters) => {
      if (sql === addToDraftSql && JSON.parse(String(parameters[1]))[0].position === 4) {
        await open(database, { slice: 1, draftSeconds: 0 }).add([{ text: longText(2, 'z') }], 'umbrella', signal)
      }
    })
    const adding = open(swept, { slice: 4 }).add([{ id: 'x', text: longText(11, 'w') }], 'acme', signal)
    await assert.rejects(adding, { code: 'STORE_UNAVAILABLE', effect: 'none' })
    assert.deepEqual(await counts(database), [2, 2, 0])
  },

  'two who add the same long text at once leave it once, and what has no room is not even put down': async ({
    database,
  }) => {
    const document = { id: 'x', text: longText(11, 'w') }
    const one = open(database, { slice: 4 })
    const both = await Promise.all([one.add([document], 'acme', signal), one.add([document], 'acme', signal)])
    assert.deepEqual(both.map(({ documents }) => documents[0]?.state).sort(), ['added', 'unchanged'])
    assert.deepEqual(await counts(database), [11, 11, 0])
    const full = heard(database, async (sql) => assert.notEqual(sql, addToDraftSql))
    const adding = open(full, { slice: 4 }, { documents: 1, bytes: 100_000 })
    await assert.rejects(adding.add([{ ...document, id: 'y' }], 'acme', signal), { code: 'LIMIT_EXCEEDED' })
  },
})

test('on PostgreSQL a search that takes too long is ended, with what to do about it', async (t) => {
  const { database } = await postgresDatabase(t)
  const slow: Database = {
    ...database,
    transaction: (work) =>
      database.transaction((queries) =>
        work({
          query: (sql, parameters) =>
            sql === termsSql ? queries.query('select pg_sleep(600)') : queries.query(sql, parameters),
        }),
      ),
  }
  const error = { code: 'LIMIT_EXCEEDED', effect: 'none', message: /fewer or rarer words/ }
  await assert.rejects(open(slow, { searchMs: 20 }).search({ query: 'x' }, 'acme', signal), error)
  assert.deepEqual((await open(database).search({ query: 'x' }, 'acme', signal)).items, [])
})
