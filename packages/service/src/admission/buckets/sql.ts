import type { Queries } from '../../storage/databases/database.ts'
import { type Buckets, type Draw, drawsOf } from './bucket.ts'

const drawSql = `
  select d.n, t.taken as tokens, t.wait_ms
  from json_to_recordset($1::json) as d(n integer, key text, capacity float8, per_ms float8, least float8, most float8),
    lateral draw_tokens(key, capacity, per_ms, least, most) t`

const tidySql = `
  with full_again as (select key from buckets where full_at < now() limit 1000 for update skip locked)
  delete from buckets where key = any (array(select key from full_again)) returning key`

/** Buckets in a table of PGlite or PostgreSQL. */
export function sqlBuckets(database: Queries): Buckets {
  const draw: Buckets['draw'] = async (draws) => {
    const rows = await database.query<{ n: number; tokens: number; wait_ms: number }>(drawSql, [
      JSON.stringify(inOrder(draws)),
    ])
    const drawn = new Map(rows.map(({ n, tokens, wait_ms: waitMs }) => [n, { tokens, waitMs }]))
    return draws.map((_, n) => drawn.get(n) ?? { tokens: 0, waitMs: 0 })
  }
  return {
    draw,
    async give(refunds) {
      await draw(drawsOf(refunds))
    },
    tidy: async () => (await database.query(tidySql)).length,
  }
}

/** Sorted by key, so that concurrent draws from the same buckets cannot deadlock. */
function inOrder(draws: readonly Draw[]): readonly object[] {
  const rows = draws.map(({ key, capacity, perMs, least, most }, n) => ({
    n,
    key,
    capacity,
    per_ms: perMs,
    least,
    most,
  }))
  return rows.sort((a, b) => (a.key < b.key ? -1 : 1))
}
