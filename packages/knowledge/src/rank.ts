import type { Warning } from '@gantry/contract'
import { dot, type Embedder, embedWithin } from '@gantry/core/internal/catalogs/embeddings'
import { cursorFault, decodeCursor, encodeCursor, queryDigest } from '@gantry/core/internal/search/index'
import type { KnowledgeQuery } from './knowledge.ts'

/** A chunk that may match a query. */
export interface Candidate {
  readonly id: string
  readonly position: number
  /** Score by words; 0 for no match. */
  readonly words: number
  /** Similarity by meaning, from -1 to 1; absent without an embedder. */
  readonly meaning?: number | undefined
}

export interface Ranked extends Pick<Candidate, 'id' | 'position'> {
  readonly score: number
}

interface RankedPage {
  readonly items: readonly Ranked[]
  readonly cursor?: string
}

const usualLimit = 10
const mostLimit = 50
/** The minimum similarity. */
const floor = 0.2
const unit = 1_000_000
const kind = 'k1'

/**
 * One page of candidates, best first: by words only, or half by words and half by meaning. Scores are rounded to
 * integers first, so that ties are equal everywhere and the order is stable.
 */
export function rankPage(candidates: readonly Candidate[], query: KnowledgeQuery, meaningful: boolean): RankedPage {
  const digest = queryDigest([query.query, [...(query.tags ?? [])].sort(), query.source ?? null, meaningful])
  const after = query.cursor === undefined ? undefined : readCursor(digest, query.cursor)
  const limit = Math.min(Math.max(1, Math.trunc(query.limit ?? usualLimit)), mostLimit)
  const top = candidates.reduce((most, { words }) => Math.max(most, words), 0)
  const scored = candidates
    .map((candidate) => ({ ...candidate, score: scoreOf(candidate, top, meaningful) }))
    .filter((one) => one.score > 0 && (after === undefined || compare(after, one) < 0))
    .sort(compare)
  const items = scored.slice(0, limit).map(({ id, position, score }) => ({ id, position, score: score / unit }))
  const last = scored.length > limit ? scored[limit - 1] : undefined
  if (last === undefined) return { items }
  return { items, cursor: encodeCursor(kind, [digest, last.score, last.id, last.position]) }
}

function scoreOf({ words, meaning = 0 }: Candidate, top: number, meaningful: boolean): number {
  const byWords = top === 0 ? 0 : words / top
  if (!meaningful) return Math.round(unit * byWords)
  return Math.round(unit * (byWords + (meaning < floor ? 0 : meaning)) * 0.5)
}

function compare(a: Ranked, b: Ranked): number {
  if (a.score !== b.score) return b.score - a.score
  if (a.id !== b.id) return a.id < b.id ? -1 : 1
  return a.position - b.position
}

function readCursor(digest: string, cursor: string): Ranked {
  const [found, score, id, position, ...rest] = decodeCursor(kind, cursor)
  if (found !== digest) throw cursorFault('belongs to another query or other filters')
  if (typeof score !== 'number' || typeof id !== 'string' || typeof position !== 'number') throw cursorFault()
  if (!Number.isSafeInteger(score) || !Number.isSafeInteger(position) || rest.length > 0) throw cursorFault()
  return { score, id, position }
}

const batchSize = 64
const embedMs = 10_000

/** Vectors of texts, in their order; undefined when the embedder failed. Rejects only when the signal has aborted. */
export async function vectorsOf(
  embedder: Embedder,
  texts: readonly string[],
  signal: AbortSignal,
): Promise<readonly Float32Array[] | undefined> {
  const vectors: Float32Array[] = []
  try {
    for (let at = 0; at < texts.length; at += batchSize) {
      const batch = texts.slice(at, at + batchSize)
      const made = await embedWithin(embedder, batch, embedMs, signal)
      if (made.length !== batch.length) return undefined
      for (const vector of made) vectors.push(unitOf(vector))
    }
    return vectors
  } catch {
    signal.throwIfAborted()
    return undefined
  }
}

/** The similarity of two vectors; undefined for vectors of different lengths. */
export function nearness(a: Float32Array | undefined, b: Float32Array): number | undefined {
  return a === undefined || a.length !== b.length ? undefined : dot(a, b)
}

/** A normalized copy. */
function unitOf(vector: Float32Array): Float32Array {
  if (!(vector instanceof Float32Array) || vector.length === 0) throw new TypeError('the embedder gave no Float32Array')
  const norm = Math.sqrt(dot(vector, vector))
  if (!Number.isFinite(norm)) throw new TypeError('the embedder gave a vector that is not finite')
  return norm === 0 ? vector.slice() : vector.map((value) => value / norm)
}

export const addedByWords: Warning = Object.freeze({
  code: 'BACKEND_UNAVAILABLE',
  message: 'The embedder failed; what was added is found by its words alone.',
})

export const foundByWords: Warning = Object.freeze({
  code: 'BACKEND_UNAVAILABLE',
  message: 'The embedder failed; texts were found by their words alone.',
})
