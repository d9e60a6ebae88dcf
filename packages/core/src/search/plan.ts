import { utf8Length } from '../json/limits.ts'
import type { Dictionary } from './dictionary.ts'
import { isCommon, isConversational, rootOf, tokenize } from './tokenize.ts'

/**
 * How a query is meant. Keywords are words of a name or its beginning, so that names count far more than descriptions.
 * A question is prose: its words meet the prose of descriptions, and a name is one short text among them.
 */
export type QueryStyle = 'keywords' | 'question'

/**
 * A query made ready: which terms count how much. It holds every number of the corpus that scoring uses,
 * so the same plan gives a document the same score whatever was added or removed since.
 */
export interface Plan {
  readonly style: QueryStyle
  /** Tokens of an average document. */
  readonly averageLength: number
  /** Terms that find documents, with their weights as whole numbers. */
  readonly terms: readonly WeightedTerm[]
  /** Terms that so many documents hold that they only add to the score of those found by others. */
  readonly refining: readonly WeightedTerm[]
}

export type WeightedTerm = readonly [term: string, scale: number]

export const maxTerms = 256
export const maxScale = 1_000_000
/** Bytes of all terms together, because a cursor carries the plan and has to fit a URL; each has its weight beside it. */
const maxPlanBytes = 5_000
const weightBytes = 12
/** Documents looked at for all terms together, the rarest first, so that a long question costs a bounded time. */
const maxPostings = 400_000
const maxQuery = 16_384
const maxQueryTokens = 256
const leastCommon = 5_000
/** A query of so few words is keywords, whatever they are. */
const fewWords = 4
const scaleUnit = 10_000
const prefixes = { least: 3, limit: 4, scan: 64, weight: 0.4 }
const inflected = { least: 3, scan: 64, weight: 0.6 }
const typos = { least: 4, twice: 8, limit: 4, weight: 0.5, words: 8 }

/** Turns a query into terms that exist: the words themselves, longer words that begin so, and mended typos. */
export function makePlan(query: string, dictionary: Dictionary, documents: number, totalLength: number): Plan {
  const { style, tokens } = readQuery(query, dictionary)
  const scales = new Map<string, number>()
  const budget = { mended: typos.words }
  for (const token of tokens) {
    for (const [number, weight, ceiling] of expand(token, style, dictionary, budget)) {
      const idf = Math.min(inverse(documents, dictionary.frequency(number)), ceiling(documents))
      const term = dictionary.term(number)
      const scale = Math.max(1, Math.round(idf * weight * scaleUnit))
      scales.set(term, Math.max(scale, scales.get(term) ?? 0))
    }
  }
  const averageLength = documents === 0 ? 1 : Math.max(1, Math.round((totalLength / documents) * 100) / 100)
  return { style, averageLength, ...parted(bounded(scales, dictionary), dictionary, documents) }
}

/** The terms that tell most, within the bounds of a plan. */
function bounded(scales: ReadonlyMap<string, number>, dictionary: Dictionary): readonly WeightedTerm[] {
  const telling = [...scales].sort(([a, one], [b, other]) => other - one || (a < b ? -1 : 1))
  const kept: WeightedTerm[] = []
  let bytes = 0
  let postings = 0
  for (const weighted of telling) {
    const [term] = weighted
    bytes += utf8Length(term) + weightBytes
    postings += dictionary.frequency(dictionary.find(term))
    const full = kept.length === maxTerms || bytes > maxPlanBytes || postings > maxPostings
    if (full && kept.length > 0) break
    kept.push(weighted)
  }
  return kept
}

/** Sets terms apart that a quarter of a large corpus holds, because finding by them costs much and tells little. */
function parted(all: readonly WeightedTerm[], dictionary: Dictionary, documents: number) {
  const most = Math.max(leastCommon, documents / 4)
  const isRare = ([term]: WeightedTerm): boolean => dictionary.frequency(dictionary.find(term)) <= most
  const terms = all.filter(isRare)
  if (terms.length === 0 || terms.length === all.length) return { terms: all, refining: [] }
  return { terms, refining: all.filter((weighted) => !isRare(weighted)) }
}

/**
 * The words of a query, each once, the rarest of them when there are too many. A query without spaces, of few words, or
 * without a word that only joins others is keywords; anything else is a question, whose words of politeness are dropped.
 */
function readQuery(query: string, dictionary: Dictionary): { style: QueryStyle; tokens: readonly string[] } {
  const text = query.slice(0, maxQuery).trim()
  const all: string[] = []
  tokenize(text, all, maxQuery)
  const words = new Set(all)
  const telling = [...words].filter((token) => !isCommon(token))
  const spelled = !/\s/.test(text) || telling.length === words.size
  const style = spelled || telling.length <= fewWords ? 'keywords' : 'question'
  const asked = style === 'question' ? telling.filter((token) => !isConversational(token)) : telling
  const tokens = [asked, telling, [...words]].find((some) => some.length > 0) ?? []
  return { style, tokens: tokens.length <= maxQueryTokens ? tokens : rarest(tokens, dictionary) }
}

/** Words that nothing holds come last: they may be typos, but most are values that a question names. */
function rarest(tokens: readonly string[], dictionary: Dictionary): readonly string[] {
  const ranked = tokens.map((token) => {
    const number = dictionary.find(token)
    return { token, frequency: (number < 0 ? 0 : dictionary.frequency(number)) || Number.POSITIVE_INFINITY }
  })
  ranked.sort((a, b) => a.frequency - b.frequency || (a.token < b.token ? -1 : 1))
  return ranked.slice(0, maxQueryTokens).map(({ token }) => token)
}

type Expansion = readonly [number: number, weight: number, ceiling: (documents: number) => number]

const unlimited = () => Number.POSITIVE_INFINITY

/** A longer, inflected or mended word never counts more than the word itself would, however rare it is. */
function expand(
  token: string,
  style: QueryStyle,
  dictionary: Dictionary,
  budget: { mended: number },
): readonly Expansion[] {
  const exact = dictionary.find(token)
  const frequency = exact < 0 ? 0 : dictionary.frequency(exact)
  const found: Expansion[] = frequency > 0 ? [[exact, 1, unlimited]] : []
  const ceiling = frequency > 0 ? (documents: number) => inverse(documents, frequency) : unlimited
  if (style === 'question') {
    for (const number of inflections(token, dictionary)) found.push([number, inflected.weight, ceiling])
  }
  if (token.length >= prefixes.least) {
    for (const number of dictionary.withPrefix(token, prefixes.limit, prefixes.scan)) {
      found.push([number, (prefixes.weight * token.length) / dictionary.term(number).length, ceiling])
    }
  }
  if (found.length > 0) return found
  const split = compound(token, dictionary)
  if (split.length > 0 || budget.mended === 0) return split
  budget.mended -= 1
  return mended(token, dictionary)
}

/** Other forms of a word: `booked` and `booking` for `book`. */
function inflections(token: string, dictionary: Dictionary): readonly number[] {
  const root = rootOf(token)
  if (root.length < inflected.least) return []
  return dictionary
    .withPrefix(root, inflected.scan, inflected.scan)
    .concat(root === token ? [] : dictionary.find(root))
    .filter((number) => number >= 0 && dictionary.frequency(number) > 0 && rootOf(dictionary.term(number)) === root)
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
