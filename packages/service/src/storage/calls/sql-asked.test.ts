import assert from 'node:assert/strict'
import { test } from 'node:test'
import { postgresDatabase } from '../../../test/databases.fixture.ts'
import { claimOne, mine, someCall } from '../../conformance/call-store/samples.ts'
import type { Database, Queries } from '../databases/database.ts'
import { openPostgres } from '../databases/postgres.ts'
import { release, resume } from './sql/leases.ts'
import { sqlCallStore } from './sql.ts'

const asked = { asked: true, delayMs: 3_600_000 }

/** Runs `first` in a transaction, starts `second`, waits until it blocks on a lock, and commits. */
async function oneBehindTheOther(
  database: Database,
  first: (queries: Queries) => Promise<void>,
  second: () => Promise<void>,
): Promise<void> {
  let waiting: Promise<void> | undefined
  await database.transaction(async (queries) => {
    await first(queries)
    waiting = second()
    const sql = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    while ((await database.query(sql)).length === 0);
  })
  await waiting
}

test('a release for an approval and a concurrent decision see each other, in either order', async (t) => {
  const { url, database } = await postgresDatabase(t)
  const other = await openPostgres({ url })
  t.after(() => other.close())
  const store = sqlCallStore(database)
  const there = sqlCallStore(other)
  const slots = [{}, { slot: { key: 's', limit: 1 } }]
  for (const [index, given] of slots.entries()) {
    await store.submit([someCall(`decided-first-${index}`, given)])
    const first = await claimOne(store)
    await oneBehindTheOther(
      database,
      (queries) => resume(queries, first.callId),
      () => there.release([{ ...first, ...asked }]),
    )
    assert.equal((await claimOne(store)).callId, first.callId, 'the decision came before the release')
    await store.submit([someCall(`asked-first-${index}`, { ...given, slot: { key: `other-${index}`, limit: 1 } })])
    const second = await claimOne(store)
    await oneBehindTheOther(
      database,
      (queries) => release({ ...database, ...queries }, [{ ...second, ...asked }]),
      () => there.resume(second.callId),
    )
    assert.equal((await claimOne(store)).callId, second.callId, 'the decision came after the release')
  }
  assert.deepEqual(await store.claim(10, mine), [])
})
