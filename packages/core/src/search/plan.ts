import type { Dictionary } from './dictionary.ts'
import { isCommon } from './stem.ts'
import { tokenize } from './tokenize.ts'

/**
 * A query made ready: which terms count how much. It holds every number of the corpus that scoring uses,
 * so the same plan gives a document the same score whatever was added or removed since.
 */
export interface Plan {
  /** Tokens of an average document. */
  readonly averageLength: number
  /** Terms that find documents, with their weights as whole numbers. */
  readonly terms: readonly WeightedTerm[]
  /** Terms that so many documents hold that they only add to the score of those found by others. */
  readonly refining: readonly WeightedTerm[]
}

export type WeightedTerm = readonly [term: string, scale: number]

export const maxTerms = 32
export const maxScale = 1_000_000
const maxQuery = 1_000
const leastCommon = 5_000
const maxQueryTokens = 16
const scaleUnit = 10_000
const prefixes = { least: 3, limit: 4, scan: 64, weight: 0.4 }
const typos = { least: 4, twice: 8, limit: 4, weight: 0.5 }

/** Turns a query into terms that exist: the words themselves, longer words that begin so, and mended typos. */
export function makePlan(query: string, dictionary: Dictionary, documents: number, totalLength: number): Plan {
  const scales = new Map<string, number>()
  for (const token of queryTokens(query)) {
    for (const [number, weight, ceiling] of expand(token, dictionary)) {
      const idf = Math.min(inverse(documents, dictionary.frequency(number)), ceiling(documents))
      const term = dictionary.term(number)
      const scale = Math.max(1, Math.round(idf * weight * scaleUnit))
      if (scales.has(term) || scales.size < maxTerms) scales.set(term, Math.max(scale, scales.get(term) ?? 0))
    }
  }
  const averageLength = documents === 0 ? 1 : Math.max(1, Math.round((totalLength / documents) * 100) / 100)
  return { averageLength, ...parted([...scales], dictionary, documents) }
}

/** Sets terms apart that a quarter of a large corpus holds, because finding by them costs much and tells little. */
function parted(all: readonly WeightedTerm[], dictionary: Dictionary, documents: number) {
  const most = Math.max(leastCommon, documents / 4)
  const terms = all.filter(([term]) => dictionary.frequency(dictionary.find(term)) <= most)
  if (terms.length === 0 || terms.length === all.length) return { terms: all, refining: [] }
  return { terms, refining: all.filter((weighted) => !terms.includes(weighted)) }
}

/** The words of a query, each once; those that say nothing are dropped unless there is nothing else. */
function queryTokens(query: string): readonly string[] {
  const tokens: string[] = []
  tokenize(query.slice(0, maxQuery), tokens, maxQueryTokens * 2)
  const telling = tokens.filter((token) => !isCommon(token))
  return [...new Set(telling.length > 0 ? telling : tokens)].slice(0, maxQueryTokens)
}

type Expansion = readonly [number: number, weight: number, ceiling: (documents: number) => number]

const unlimited = () => Number.POSITIVE_INFINITY

/** A longer or mended word never counts more than the word itself would, however rare it is. */
function expand(token: string, dictionary: Dictionary): readonly Expansion[] {
  const exact = dictionary.find(token)
  const frequency = exact < 0 ? 0 : dictionary.frequency(exact)
  const found: Expansion[] = frequency > 0 ? [[exact, 1, unlimited]] : []
  const ceiling = frequency > 0 ? (documents: number) => inverse(documents, frequency) : unlimited
  if (token.length >= prefixes.least) {
    for (const number of dictionary.withPrefix(token, prefixes.limit, prefixes.scan)) {
      found.push([number, (prefixes.weight * token.length) / dictionary.term(number).length, ceiling])
    }
  }
  if (found.length > 0) return found
  const split = compound(token, dictionary)
  return split.length > 0 ? split : mended(token, dictionary)
}

/** `createissue` means `create` and `issue` when both are words here; the rarer pair wins. */
function compound(token: string, dictionary: Dictionary): readonly Expansion[] {
  let best: readonly [number, number] | undefined
  let least = Number.POSITIVE_INFINITY
  for (let at = 2; at <= token.length - 2; at += 1) {
    const left = dictionary.find(token.slice(0, at))
    const right = dictionary.find(token.slice(at))
    if (left < 0 || right < 0) continue
    const rarer = Math.min(dictionary.frequency(left), dictionary.frequency(right))
    if (rarer === 0 || rarer >= least) continue
    best = [left, right]
    least = rarer
  }
  return best === undefined ? [] : best.map((number) => [number, 0.8, unlimited])
}

function mended(token: string, dictionary: Dictionary): readonly Expansion[] {
  if (token.length < typos.least) return []
  const edits = token.length >= typos.twice ? 2 : 1
  return dictionary
    .similar(token, edits, typos.limit)
    .map((match) => [match.number, typos.weight / match.edits, unlimited])
}

/** How much a term tells, by how few documents hold it (BM25's idf, never negative). */
function inverse(documents: number, frequency: number): number {
  return Math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))
}
