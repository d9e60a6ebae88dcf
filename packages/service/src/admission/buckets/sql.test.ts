import { randomUUID } from 'node:crypto'
import type { TestContext } from 'node:test'
import { pgliteDatabase, postgresDatabase } from '../../../test/databases.fixture.ts'
import { type BucketsFixture, testBuckets } from '../../conformance/buckets.ts'
import type { Database } from '../../storage/databases/database.ts'
import { openPostgres } from '../../storage/databases/postgres.ts'
import { sqlBuckets } from './sql.ts'

function fixture(database: Database, other: Database): BucketsFixture {
  return {
    buckets: sqlBuckets(database),
    other: sqlBuckets(other),
    async pass(key, ms) {
      const sql = `update buckets set filled_at = filled_at - $2 * interval '1 millisecond',
        full_at = full_at - $2 * interval '1 millisecond' where key = $1`
      await database.query(sql, [key, ms])
    },
    key: () => `test:${randomUUID()}`,
  }
}

testBuckets('PGlite', async (t: TestContext) => {
  const database = await pgliteDatabase(t)
  return fixture(database, database)
})

testBuckets('PostgreSQL', async (t: TestContext) => {
  const { url, database } = await postgresDatabase(t)
  const other = await openPostgres({ url })
  t.after(() => other.close())
  return fixture(database, other)
})
