import type pg from 'pg'
import type { NameOf } from './names.ts'

/** Sends a statement by the time it returns its promise. */
export async function send(
  client: pg.Client,
  nameOf: NameOf,
  sql: string,
  parameters: readonly unknown[] = [],
): Promise<pg.QueryResult> {
  if (parameters.length === 0) return last(await client.query(sql))
  const name = nameOf(sql)
  return await client.query({ text: sql, values: [...parameters], ...(name === undefined ? {} : { name }) })
}

/** Without parameters a text may hold several statements; the rows are those of the last. */
function last(result: pg.QueryResult | pg.QueryResult[]): pg.QueryResult {
  return Array.isArray(result) ? (result.at(-1) as pg.QueryResult) : result
}
