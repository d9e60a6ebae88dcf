import type { Database } from '../../databases/database.ts'
import type { Holder } from '../call-store.ts'
import { heldSql, holderColumns, holdersJson } from './holders.ts'

const extendSql = `
  with d as (select * from json_to_recordset($1::json) as d(${holderColumns})), ${heldSql}
  update queue set lease_until = now() + $2::float8 * interval '1 millisecond'
  where call_id = any (array(select call_id from held))
  returning call_id, fence, cancel_at is not null as cancelled`

type Extended = { call_id: string; fence: number; cancelled: boolean }

export async function extend(
  database: Database,
  holders: readonly Holder[],
  leaseMs: number,
): Promise<{ lost: readonly string[]; cancelled: readonly string[] }> {
  if (holders.length === 0) return { lost: [], cancelled: [] }
  const rows = await database.query<Extended>(extendSql, [holdersJson(holders), leaseMs])
  const fences = new Map(rows.map(({ call_id, fence }) => [call_id, fence]))
  return {
    lost: holders.filter(({ callId, fence }) => fences.get(callId) !== fence).map(({ callId }) => callId),
    cancelled: rows.filter(({ cancelled }) => cancelled).map(({ call_id }) => call_id),
  }
}
