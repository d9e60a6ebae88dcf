import type { Database } from '../../databases/database.ts'
import type { Holder } from '../call-store.ts'
import { holderColumns, holdersJson } from './holders.ts'

const outcomesSql = `
  select d.call_id
  from json_to_recordset($1::json) as d(${holderColumns}), lateral (
    select from results where call_id = d.call_id and fence = d.fence offset 0
  ) r`

export async function outcomes(database: Database, holders: readonly Holder[]): Promise<readonly string[]> {
  if (holders.length === 0) return []
  const rows = await database.query<{ call_id: string }>(outcomesSql, [holdersJson(holders)])
  return rows.map(({ call_id }) => call_id)
}
