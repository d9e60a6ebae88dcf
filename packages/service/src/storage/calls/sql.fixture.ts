import type { StoreFixture } from '../../conformance/call-store/samples.ts'
import type { Database, Row } from '../databases/database.ts'
import type { CallRecords } from './call-records.ts'
import { sqlCallStore } from './sql.ts'

/**
 * Truncating makes a new file for each table and index, which takes longer than a test. The audit record refuses to be
 * emptied otherwise.
 */
const emptySql = `set session_replication_role = replica; ${[
  ...['calls', 'queue', 'results', 'attempts', 'audit', 'outbox', 'dead_letters'],
]
  .map((table) => `delete from ${table};`)
  .join(' ')} set session_replication_role = origin`

/** Instead of waiting: every time that the store will look at lies so much nearer. */
const passSql = `
  update queue set lease_until = lease_until - $1 * interval '1 millisecond', run_at = run_at - $1 * interval '1 millisecond',
    deadline = deadline - $1 * interval '1 millisecond'`

/** A store on empty tables, with the rights of the service; `other` reaches the same ones in its own way. */
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
