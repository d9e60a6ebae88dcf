import type { StoreFixture } from '../../conformance/call-store/samples.ts'
import type { Database, Row } from '../databases/database.ts'
import type { CallRecords } from './call-records.ts'
import { sqlCallStore } from './sql.ts'

/**
 * Deletes instead of truncating, which creates a file per table and index and is slower than a test. Triggers are
 * disabled, because the audit log refuses deletes otherwise.
 */
const emptySql = `set session_replication_role = replica; ${[
  'calls',
  'queue',
  'results',
  'attempts',
  'audit',
  'outbox',
  'dead_letters',
]
  .map((table) => `delete from ${table};`)
  .join(' ')} set session_replication_role = origin`

/** Advances time by moving all future times of the store nearer. */
const passSql = `
  update queue set lease_until = lease_until - $1 * interval '1 millisecond', run_at = run_at - $1 * interval '1 millisecond',
    deadline = deadline - $1 * interval '1 millisecond'`

/** A store on empty tables, with the rights of the service; `other` uses another connection to the same tables. */
export async function sqlFixture(owner: Database, other: Database = owner): Promise<StoreFixture> {
  await owner.query(emptySql)
  const database = owner.asService()
  return {
    store: sqlCallStore(database),
    other: sqlCallStore(other.asService()),
    async pass(ms) {
      await database.query(passSql, [ms])
    },
    records: () => readRecords(database),
  }
}

async function readRecords(database: Database): Promise<CallRecords> {
  const read = async (sql: string): Promise<never[]> => (await database.query(sql)).map(withoutNulls) as never[]
  return {
    results: await read(`
      select call_id as "callId", fence, status, code, result as text, result_ref as ref, result_bytes as bytes
      from results order by finished_at, call_id`),
    attempts: await read(`
      select call_id as "callId", fence, worker, outcome from attempts order by ended_at, call_id, fence`),
    audit: await read(`
      select call_id as "callId", fence, phase, tenant, principal, tool, worker, status, code, config
      from audit order by seq`),
    outbox: await read('select call_id as "callId", tenant, kind, target from outbox order by id'),
    deadLetters: await read(`
      select id, tenant, call_id as "callId", source, reason, code, tool, deliveries from dead_letters order by created_at`),
  }
}

function withoutNulls(row: Row): Row {
  return Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null))
}
