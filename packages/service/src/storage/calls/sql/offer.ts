import type { Database } from '../../databases/database.ts'

/** $1: the needs as a JSON list; $2: how many calls. Calls with a slot key stand in line for a slot first. */
const offerSql = `
  with offered as (
    update queue set lane = case when slot_key is null then 'ready' else 'held' end
    where call_id = any (array(
      select call_id from queue
      where lane = 'later' and needs = any (array(select json_array_elements_text($1::json)))
      order by id limit $2
      for update skip locked
    ))
    returning slot_key
  )
  select count(*)::integer as offered,
    (select fill_slots(array_agg(slot_key)) from offered where slot_key is not null) as filled,
    (select pg_notify('gantry_ready', '') where exists (select from offered)) as told
  from offered`

export async function offer(database: Database, needs: readonly string[], max: number): Promise<number> {
  if (needs.length === 0) return 0
  const [row] = await database.query<{ offered: number }>(offerSql, [JSON.stringify(needs), max])
  return row?.offered ?? 0
}
