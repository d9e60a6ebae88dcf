import type { Queries } from '../databases/database.ts'
import type { Place } from '../page-cursor.ts'
import { type LetterReader, seenLetters, tenantOfReader } from './dead-letter-reader.ts'
import type { LetterRow } from './dead-letter-rows.ts'
import { listSql, stretchSql } from './dead-letter-statements.ts'

/** Which letters: so many of those that the reader sees, from a place on. */
export interface LetterQuery {
  readonly reader: LetterReader
  readonly from: Place
  readonly most: number
  /** How many letters are looked at at a time, because a sender of messages may have made up as many names of tools. */
  readonly stretch: number
}

/**
 * The newest letters that somebody sees. What a tool is to him only the catalog knows, so that the names of the tools of
 * a stretch of letters are read first, and the statement is told which of them he sees.
 */
export async function listLetters(queries: Queries, query: LetterQuery): Promise<readonly LetterRow[]> {
  const { reader, from, most, stretch } = query
  const tenant = tenantOfReader(reader)
  const found: LetterRow[] = []
  for (let place: Place | undefined = from; place !== undefined && found.length < most; ) {
    const { at, id }: Place = place
    const { tools, end } = await stretchFrom(queries, tenant, place, reader, stretch)
    const values = [
      tenant,
      at,
      id,
      most - found.length,
      ...seenLetters(reader, tools),
      end?.at ?? null,
      end?.id ?? null,
    ]
    found.push(...(await queries.query<LetterRow>(listSql, values)))
    place = end
  }
  return found
}

type Stretch = { readonly tools: readonly string[]; readonly end: Place | undefined }
type StretchRow = { tools: string; place: string; id: string }

/** The end is the last letter of the stretch, and absent when none can follow. */
async function stretchFrom(
  queries: Queries,
  tenant: string,
  { at, id }: Place,
  reader: LetterReader,
  most: number,
): Promise<Stretch> {
  if (typeof reader === 'string') return { tools: [], end: undefined }
  const [row] = await queries.query<StretchRow & { count: number }>(stretchSql, [tenant, at, id, most])
  if (row === undefined) return { tools: [], end: undefined }
  return { tools: JSON.parse(row.tools), end: row.count < most ? undefined : { at: row.place, id: row.id } }
}
