import { ToolError } from '@gantry/contract'
import type { KnowledgeHit, KnowledgeQuery } from '@gantry/knowledge'
import { parseQuery, plainWords } from '@gantry/knowledge/internal/query'
import type { Ranked } from '@gantry/knowledge/internal/rank'
import { type Database, type Queries, storable } from '../databases/database.ts'
import type { KnowledgeBounds } from './knowledge-statements.ts'
import * as sql from './knowledge-statements.ts'

type RankRow = {
  readonly id: string
  readonly position: number
  readonly words: number
  readonly vector: string | null
}
type TermRow = { readonly term: string; readonly pieces: number | null; readonly total: number }
type Term = TermRow & { readonly pieces: number }
export type InfoRow = {
  readonly id: string
  readonly title: string | null
  readonly source: string | null
  readonly tags: readonly string[]
}
type HitRow = InfoRow & { readonly position: number; readonly start: number; readonly text: string }

/** Limit of chunks that are compared by vector. */
const mostCandidates = 1_000

/** The chunks that match the words of a query best; with an embedder, filled up with chunks without these words. */
export function candidatesOf(
  database: Database,
  query: KnowledgeQuery,
  tenant: string,
  model: string | undefined,
  bounds: KnowledgeBounds,
  signal: AbortSignal,
): Promise<readonly RankRow[]> {
  return soon(database, bounds, async (queries) => {
    const found = await byWords(queries, query, tenant, model, bounds, signal)
    signal.throwIfAborted()
    if (model === undefined || found.length === mostCandidates) return found
    const known = new Set(found.map(({ id, position }) => `${id} ${position}`))
    const filters = filtersOf(query, tenant, model, bounds)
    const others = await queries.query<RankRow>(sql.meaningSql, filters)
    return [...found, ...others.filter(({ id, position }) => !known.has(`${id} ${position}`))]
  })
}

/** Limits the time of a search on PostgreSQL. PGlite cannot cancel a statement; the number of chunks bounds it there. */
async function soon<T>(
  database: Database,
  { searchMs }: KnowledgeBounds,
  work: (queries: Queries) => Promise<T>,
): Promise<T> {
  if (database.kind === 'pglite') return work(database)
  try {
    return await database.transaction(async (queries) => {
      await queries.query(`set local statement_timeout = ${searchMs}`)
      return work(queries)
    })
  } catch (cause) {
    if (!ToolError.is(cause) || cause.details?.sqlstate !== outOfTime) throw cause
    const message = `The search timed out after ${searchMs} ms; search for fewer or rarer words.`
    throw new ToolError('LIMIT_EXCEEDED', message, {
      cause,
      effect: 'none',
      details: { limit: 'searchMs', most: searchMs },
    })
  }
}

const outOfTime = '57014'

function filtersOf(
  { query, tags = [], source }: KnowledgeQuery,
  tenant: string,
  model: string | undefined,
  { examined }: KnowledgeBounds,
): readonly unknown[] {
  const { phrases, without } = parseQuery(query)
  return [
    tenant,
    phrases.map(plainWords),
    without.map(plainWords),
    tags.map(storable),
    source === undefined ? null : storable(source),
    model ?? null,
    mostCandidates,
    examined,
  ]
}

async function byWords(
  queries: Queries,
  query: KnowledgeQuery,
  tenant: string,
  model: string | undefined,
  bounds: KnowledgeBounds,
  signal: AbortSignal,
): Promise<readonly RankRow[]> {
  const { words, phrases } = parseQuery(query.query)
  const terms = await termsOf(queries, words, tenant, bounds, signal)
  if (terms.length === 0) return []
  const weights = terms.map(({ pieces, total }) => Math.log(1 + Math.max(total, pieces) / (pieces + 0.5)))
  return queries.query<RankRow>(sql.rankSql, [
    ...filtersOf(query, tenant, model, bounds),
    wantedOf(terms, bounds),
    terms.map(({ term }) => term),
    weights,
    phrases.map(plainWords).join(' '),
    bounds.ranked,
  ])
}

/** Counts the terms of a large tenant one by one, so that other statements run in between. */
async function termsOf(
  queries: Queries,
  words: readonly string[],
  tenant: string,
  { common, ranked }: KnowledgeBounds,
  signal: AbortSignal,
): Promise<readonly Term[]> {
  const rows = await queries.query<TermRow>(sql.termsSql, [tenant, words, words.map(plainWords), common, ranked])
  const terms: Term[] = []
  for (const row of rows) {
    signal.throwIfAborted()
    const [counted] = row.pieces === null ? await queries.query<Term>(sql.countSql, [tenant, row.term, common]) : []
    terms.push({ ...row, pieces: row.pieces ?? counted?.pieces ?? 0 })
  }
  signal.throwIfAborted()
  return terms
}

/** Limit of very common words in a search. */
const mostCommon = 3

/**
 * Any of the words; but of words that very many pieces hold, only when there are no rarer ones. They count for the
 * order all the same, and the database need not weigh everything that it has. Of a tenant with more pieces than are
 * weighed the rarest words are looked for, as many as find no more than that.
 */
function wantedOf(terms: readonly Term[], { common, ranked }: KnowledgeBounds): string {
  const rare = terms.filter(({ pieces }) => pieces < common)
  const chosen = rare.length > 0 ? rare : terms
  const few = terms.every(({ total }) => total <= ranked)
  return (few ? chosen : rarest(chosen, ranked, rare.length > 0 ? 1 : mostCommon))
    .map(({ term }) => `( ${term} )`)
    .join(' | ')
}

/** The rarest terms that together match at most `mostChunks` chunks, but at least `least` terms. */
function rarest(terms: readonly Term[], mostChunks: number, least: number): readonly Term[] {
  let found = 0
  return terms
    .toSorted((one, other) => one.pieces - other.pieces)
    .filter(({ pieces }, index) => {
      found += pieces
      return index < least || found <= mostChunks
    })
}

export async function hitsOf(
  queries: Queries,
  tenant: string,
  ranked: readonly Ranked[],
): Promise<readonly KnowledgeHit[]> {
  if (ranked.length === 0) return []
  const wanted = JSON.stringify(ranked.map(({ id, position }) => ({ id, position })))
  const rows = await queries.query<HitRow>(sql.hitsSql, [tenant, wanted])
  const found = new Map(rows.map((row) => [`${row.id} ${row.position}`, row]))
  return ranked.flatMap(({ id, position, score }) => {
    const row = found.get(`${id} ${position}`)
    return row === undefined ? [] : [{ ...infoOf(row), position, start: row.start, text: row.text, score }]
  })
}

export function infoOf({ id, title, source, tags }: InfoRow): Pick<KnowledgeHit, 'id' | 'title' | 'source' | 'tags'> {
  return { id, ...(title === null ? {} : { title }), ...(source === null ? {} : { source }), tags }
}
