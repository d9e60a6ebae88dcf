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

/** Adds 30 documents with one common word and some rare ones; the last ten have a tag. */
async function addFruit(database: Database): Promise<void> {
  const documents = Array.from({ length: 30 }, (_, n) => ({
    id: `d${String(n).padStart(2, '0')}`,
    text: ['apple', ...(n % 10 === 9 ? ['pear'] : []), ...(n === 29 ? ['quince'] : [])].join(' '),
    tags: n < 20 ? [] : ['late'],
  }))
  await open(database).add(documents, 'acme', signal)
}

/** A text of `pieces` chunks, each with a word of its own and one that all share. */
function longText(pieces: number, all: string): string {
  return Array.from({ length: pieces }, (_, n) => `${all} own${n} ${'extraordinarily '.repeat(45)}`).join('\n\n')
}

/** The database, with `listener` called before each statement. */
function observed(
  database: Database,
  listener: (sql: string, parameters: readonly unknown[]) => Promise<void>,
): Database {
  const around = (queries: Queries): Queries['query'] =>
    async function query(sql, parameters = []) {
      await listener(sql, parameters)
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
  'a search ranks at most `ranked` chunks, however many match': async ({ database }) => {
    await addFruit(database)
    assert.equal((await ids(open(database), 'apple')).length, 30)
    assert.equal((await ids(open(database, { ranked: 5 }), 'apple')).length, 5)
    assert.equal((await ids(open(database, { ranked: 5, common: 1 }), 'apple pear')).length, 5)
  },

  'a search examines at most `examined` chunks for its filters': async ({ database }) => {
    await addFruit(database)
    assert.equal((await ids(open(database), 'apple', { tags: ['late'] })).length, 10)
    assert.ok((await ids(open(database, { examined: 12 }), 'apple', { tags: ['late'] })).length < 10)
    // The index finds the words of a phrase, so that chunks without them are not examined.
    assert.deepEqual(await ids(open(database, { examined: 1 }), 'apple "pear quince"'), ['d29'])
  },

  'a search over more chunks than it ranks keeps those with the rarest words, in the same order': async ({
    database,
  }) => {
    await addFruit(database)
    const all = await ids(open(database), 'apple pear quince')
    assert.deepEqual(all.slice(0, 3), ['d29', 'd09', 'd19'])
    assert.deepEqual(await ids(open(database, { ranked: 5 }), 'apple pear quince'), all.slice(0, 3))
    assert.deepEqual(await ids(open(database, { ranked: 30 }), 'apple pear quince'), all)
  },

  'an aborted search stops after the current statement': async ({ database }) => {
    await addFruit(database)
    const stop = new AbortController()
    const done: string[] = []
    const spied = observed(database, async (sql) => {
      done.push(sql)
      if (sql === countSql) stop.abort(new Error('cancelled'))
    })
    const searching = open(spied, { ranked: 5 }).search({ query: 'apple pear quince' }, 'acme', stop.signal)
    await assert.rejects(searching, /cancelled/)
    assert.deepEqual(done.slice(-2), [termsSql, countSql])
  },

  'a long text is added in slices, and other statements run between them': async ({ database }) => {
    const sizes: number[] = []
    const seen: unknown[] = []
    const spied = observed(database, async (sql, parameters) => {
      if (sql !== addToDraftSql && sql !== insertChunksSql) return
      sizes.push(JSON.parse(String(parameters[1])).length)
      // On PGlite this would deadlock if the slices were in one transaction.
      seen.push(await ids(open(database), 'common'))
    })
    const knowledge = open(spied, { slice: 4 })
    const [added] = (await knowledge.add([{ id: 'x', text: longText(11, 'common') }], 'acme', signal)).documents
    assert.deepEqual([added?.state, added?.chunks, sizes], ['added', 11, [4, 4, 3]])
    assert.deepEqual(seen, [[], [], []], 'no chunk is found before the text is complete')
    assert.equal((await ids(knowledge, 'common')).length, 11)
    assert.deepEqual(await counts(database), [11, 11, 0])
    const { text } = await knowledge.get('x', { from: 0, limit: 100 }, 'acme', signal)
    assert.equal(text, longText(11, 'common'))
  },

  'a text is found until the long text that replaces it is complete': async ({ database }) => {
    const seen: unknown[] = []
    const spied = observed(database, async (sql) => {
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

  'an add that fails or is cancelled between slices leaves no chunks and no draft': async ({ database }) => {
    const stop = new AbortController()
    for (const fail of [
      () => Promise.reject(new Error('unavailable')),
      async () => stop.abort(new Error('cancelled')),
    ]) {
      let slices = 0
      const failing = observed(database, async (sql) => {
        if (sql === addToDraftSql) slices += 1
        if (sql === addToDraftSql && slices === 2) await fail()
      })
      const adding = open(failing, { slice: 4 }).add([{ id: 'x', text: longText(11, 'w') }], 'acme', stop.signal)
      await assert.rejects(adding, /unavailable|cancelled/)
      assert.deepEqual([slices, await counts(database)], [2, [0, 0, 0]])
    }
  },

  'a draft left by a lost process is never found, and a later add removes it': async ({ database }) => {
    const dying = observed(database, async (sql, parameters) => {
      const late = sql === addToDraftSql && JSON.parse(String(parameters[1]))[0].position >= 4
      if (late || sql === dropDraftSql) throw new Error('died')
    })
    const text = longText(11, 'w')
    await assert.rejects(open(dying, { slice: 4 }).add([{ id: 'x', text }], 'acme', signal), /died/)
    assert.deepEqual(await counts(database), [4, 0, 1])
    assert.deepEqual(await ids(open(database), 'w'), [])
    const other = open(database, { slice: 4 })
    await other.add([{ id: 'y', text: longText(5, 'z') }], 'umbrella', signal)
    assert.deepEqual(await counts(database), [9, 5, 1], 'its process may still be running')
    await open(database, { slice: 4, draftSeconds: 0 }).add([{ id: 'x', text }], 'acme', signal)
    assert.deepEqual(await counts(database), [16, 16, 0])
    assert.equal((await ids(other, 'w')).length, 11)
  },

  'an add whose draft was removed as abandoned is STORE_UNAVAILABLE and adds nothing': async ({ database }) => {
    const swept = observed(database, async (sql, parameters) => {
      if (sql === addToDraftSql && JSON.parse(String(parameters[1]))[0].position === 4) {
        await open(database, { slice: 1, draftSeconds: 0 }).add([{ text: longText(2, 'z') }], 'umbrella', signal)
      }
    })
    const adding = open(swept, { slice: 4 }).add([{ id: 'x', text: longText(11, 'w') }], 'acme', signal)
    await assert.rejects(adding, { code: 'STORE_UNAVAILABLE', effect: 'none' })
    assert.deepEqual(await counts(database), [2, 2, 0])
  },

  'concurrent adds of the same long text store it once, and an add over the limit writes no draft': async ({
    database,
  }) => {
    const document = { id: 'x', text: longText(11, 'w') }
    const one = open(database, { slice: 4 })
    const both = await Promise.all([one.add([document], 'acme', signal), one.add([document], 'acme', signal)])
    assert.deepEqual(both.map(({ documents }) => documents[0]?.state).sort(), ['added', 'unchanged'])
    assert.deepEqual(await counts(database), [11, 11, 0])
    const full = observed(database, async (sql) => assert.notEqual(sql, addToDraftSql))
    const adding = open(full, { slice: 4 }, { documents: 1, bytes: 100_000 })
    await assert.rejects(adding.add([{ ...document, id: 'y' }], 'acme', signal), { code: 'LIMIT_EXCEEDED' })
  },
})

test('on PostgreSQL a search over its time limit is LIMIT_EXCEEDED with a hint', async (t) => {
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
