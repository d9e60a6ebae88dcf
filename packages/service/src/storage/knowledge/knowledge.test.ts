import assert from 'node:assert/strict'
import { type KnowledgeSetup, testKnowledge } from '@gantry/conformance'
import type { Embedder } from '@gantry/core'
import type { Knowledge } from '@gantry/knowledge'
import { pgliteDatabase, postgresDatabase } from '../../../test/databases.fixture.ts'
import { testOnDatabases } from '../calls.fixture.ts'
import type { Database, Queries } from '../databases/database.ts'
import { knowledgeRecords } from './knowledge.ts'
import { rankSql } from './knowledge-statements.ts'

function emptied(owner: Database): (setup: KnowledgeSetup) => Promise<Knowledge> {
  return async ({ limits, embedder }) => {
    await owner.query('truncate knowledge, knowledge_chunks, knowledge_use')
    const quota = { documents: 1_000, bytes: 10_000_000, ...limits }
    return knowledgeRecords(owner.asService(), { limits: quota, embedder })
  }
}

testKnowledge('PGlite', async (t) => emptied(await pgliteDatabase(t)))
testKnowledge('PostgreSQL', async (t) => emptied((await postgresDatabase(t)).database))

const { signal } = new AbortController()
const quota = { documents: 1_000, bytes: 10_000_000 }

/** Runs statements with their conditions on the tenant removed. */
function forgetful(queries: Queries): Queries {
  return {
    query: (sql, parameters) =>
      queries.query(
        sql
          .replaceAll(/(?:\w+\.)?tenant (?:=|is not distinct from) (\$\d+)/g, '$1::text is not null')
          .replaceAll(/of_tenant\(\$1, /g, '('),
        parameters,
      ),
  }
}

/** The texts of a document of `acme` that a tenant can read. */
async function seen(database: Database, tenant: string): Promise<string[]> {
  const knowledge = knowledgeRecords(database, { limits: quota })
  const found = await knowledge.search({ query: 'formula' }, tenant, signal)
  const read = await knowledge.get('x', { from: 0, limit: 1 }, tenant, signal).then(
    ({ text }) => text,
    () => undefined,
  )
  return [...found.items.map(({ text }) => text), ...(read === undefined ? [] : [read])]
}

testOnDatabases({
  'row-level security hides other tenants from a statement without a condition on the tenant': async ({ database }) => {
    const text = 'The formula is secret.'
    await knowledgeRecords(database, { limits: quota }).add([{ id: 'x', text }], 'acme', signal)
    const kept: Database = {
      ...database,
      query: forgetful(database).query as Database['query'],
      transaction: (work) => database.transaction((queries) => work(forgetful(queries))),
      asTenant: (tenant) => forgetful(database.asTenant(tenant)),
    }
    assert.deepEqual(await seen(kept, 'acme'), [text, text])
    assert.deepEqual(await seen(kept, 'umbrella'), [])
    // With the rights of the service the same statements return the texts of all tenants.
    const open: Database = { ...kept, asTenant: () => forgetful(database) }
    assert.deepEqual(await seen(open, 'umbrella'), [text, text])
  },

  'a tenant can read its own rows and write none': async ({ database }) => {
    await knowledgeRecords(database, { limits: quota }).add([{ id: 'x', text: 'one two' }], 'acme', signal)
    for (const table of ['knowledge', 'knowledge_chunks', 'knowledge_use']) {
      const count = async (tenant: string): Promise<unknown> =>
        (await database.asTenant(tenant).query(`select count(*) as n from ${table}`))[0]?.n
      assert.deepEqual([await count('acme'), await count('umbrella')], [1, 0], table)
      await assert.rejects(database.asTenant('acme').query(`delete from ${table}`), /read-only/, table)
    }
  },

  'concurrent adds do not exceed the limit, and knowledge_use matches the stored documents': async ({ database }) => {
    const knowledge = knowledgeRecords(database, { limits: { documents: 10, bytes: 1_000 } })
    const adding = Array.from({ length: 16 }, (_, n) =>
      knowledge.add([{ id: `d${n % 12}`, text: `text ${n}` }], 'acme', signal),
    )
    const ends = await Promise.allSettled(adding)
    assert.ok(ends.some(({ status }) => status === 'rejected'))
    const [there] = await database.query(
      'select count(*) as documents, sum(chunks) as chunks, sum(bytes) as bytes from knowledge',
    )
    const [counted] = await database.query('select documents, chunks, bytes from knowledge_use')
    assert.equal(Number(there?.documents), 10)
    assert.deepEqual(counted, { documents: 10, chunks: Number(there?.chunks), bytes: Number(there?.bytes) })
  },

  'a text that is added again gets a vector of a new embedder, or of one that failed before': async ({ database }) => {
    const embedder = (id: string, works: boolean): Embedder => ({
      id,
      embed: async (texts) => (works ? texts.map(() => Float32Array.of(1, 0)) : Promise.reject(new Error('no'))),
    })
    const add = async (own: Embedder | undefined) => {
      const knowledge = knowledgeRecords(database, { limits: quota, embedder: own })
      const [added] = (await knowledge.add([{ id: 'x', text: 'one two' }], 'acme', signal)).documents
      const [row] = await database.query('select embedder, vector is not null as has from knowledge_chunks')
      return [added?.state, row?.embedder, row?.has]
    }
    assert.deepEqual(await add(undefined), ['added', null, false])
    assert.deepEqual(await add(embedder('e1', true)), ['replaced', 'e1', true])
    assert.deepEqual(await add(embedder('e1', true)), ['unchanged', 'e1', true])
    assert.deepEqual(await add(embedder('e2', false)), ['replaced', null, false])
    assert.deepEqual(await add(embedder('e2', true)), ['replaced', 'e2', true])
    assert.deepEqual(await add(embedder('e2', false)), ['unchanged', 'e2', true])
  },

  'a search by words uses the index knowledge_words': async ({ owner, database }) => {
    await owner.query(`
      insert into knowledge_chunks (tenant, id, position, start, text, words)
      select 'acme', 'd' || n, 0, 0, 't', to_tsvector('simple', 'word' || n) from generate_series(1, 5000) n`)
    const filters = ["'acme'", 'array[]', 'array[]', 'array[]', 'null', 'null', '10', '100']
    const values = [...filters, "'word7'", "array['word7']", 'array[1]', "''", '100']
    const statement = rankSql.replaceAll(/\$(\d+)/g, (_, n) => values[Number(n) - 1] ?? '')
    assert.match(JSON.stringify(await database.query(`explain ${statement}`)), /knowledge_words/)
  },
})
