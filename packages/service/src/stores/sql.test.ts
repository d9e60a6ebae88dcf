import { pgliteDatabase, postgresDatabase } from '../../test/databases.fixture.ts'
import { testCallStore } from '../conformance/call-store.ts'
import { openPostgres } from '../databases/postgres.ts'
import { sqlFixture } from './sql.fixture.ts'

testCallStore('SQL on PGlite', async (t) => {
  const database = await pgliteDatabase(t)
  return () => sqlFixture(database)
})

testCallStore('SQL on PostgreSQL', async (t) => {
  const { url, database } = await postgresDatabase(t)
  const other = await openPostgres({ url })
  t.after(() => other.close())
  return () => sqlFixture(database, other)
})
