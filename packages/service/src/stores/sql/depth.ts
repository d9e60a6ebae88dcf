import type { Database } from '../../databases/database.ts'

const depthSql = `
  select least($1::bigint,
    (select count(*) from (select from queue where lane = 'ready' and lease_until is null limit $1) ready)
    + (select count(*) from (select from queue where lane = 'held' limit $1) held)) as depth`

export async function depth(database: Database, most: number): Promise<number> {
  const [row] = await database.query<{ depth: number }>(depthSql, [most])
  return row?.depth ?? 0
}
