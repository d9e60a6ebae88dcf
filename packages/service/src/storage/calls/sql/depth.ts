import type { Database } from '../../databases/database.ts'

const depthSql = `
  select least($1::bigint,
    (select count(*) from (select from queue where lane = 'ready' and lease_until is null limit $1) ready)
    + (select count(*) from (select from queue where lane = 'held' limit $1) held)) as depth`

export async function depth(database: Database, most: number): Promise<number> {
  const [row] = await database.query<{ depth: number }>(depthSql, [most])
  return row?.depth ?? 0
}

const waitingSql = `
  select coalesce(principal, '') as principal, count(*)::integer as calls
  from (
    (select principal from queue where tenant = $1 and lane = 'ready' and lease_until is null limit $2)
    union all
    (select principal from queue where tenant = $1 and coalesce(lane <> 'ready', false) limit $2)
  ) waiting
  group by 1`

export async function waiting(database: Database, tenant: string, most: number): Promise<ReadonlyMap<string, number>> {
  const rows = await database.query<{ principal: string; calls: number }>(waitingSql, [tenant, most])
  return new Map(rows.map(({ principal, calls }) => [principal, calls]))
}
