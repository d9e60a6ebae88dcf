import type { Database } from '../../databases/database.ts'
import type { Holder } from '../call-store.ts'
import { heldSql, holderColumns, holdersJson } from './holders.ts'

const beginSql = `
  with d as (select * from json_to_recordset($1::json) as d(${holderColumns})), ${heldSql}
  update queue set begun = true where call_id = any (array(select call_id from held)) returning call_id`

export async function begin(database: Database, holders: readonly Holder[]): Promise<readonly string[]> {
  if (holders.length === 0) return []
  const rows = await database.query<{ call_id: string }>(beginSql, [holdersJson(holders)])
  return rows.map(({ call_id }) => call_id)
}
