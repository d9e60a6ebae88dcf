import { utf8Length } from '../json/plain.ts'
import type { Dictionary } from './dictionary.ts'
import { isCommon, isConversational, rootOf, tokenize } from './tokenize.ts'

/**
 * The style of a query. Keywords are words or prefixes of a name, so names weigh far more than descriptions.
 * A question is prose: it is matched with descriptions, and a name is one short text among them.
 */
export type QueryStyle = 'keywords' | 'question'

/**
 * A compiled query: its terms and their weights. It holds every corpus statistic that scoring uses,
 * so the same plan gives a document the same score after additions and removals.
 */
export interface Plan {
  readonly style: QueryStyle
  /** Tokens of an average document. */
  readonly averageLength: number
  /** Terms that find documents, with their weights as whole numbers. */
  readonly terms: readonly WeightedTerm[]
  /** Terms too common to find documents; they only add to the score of documents found by other terms. */
  readonly refining: readonly WeightedTerm[]
}

export type WeightedTerm = readonly [term: string, scale: number]

export const maxTerms = 256
export const maxScale = 1_000_000
/** Limit on the bytes of all terms and their weights, because a cursor carries the plan and must fit into a URL. */
const maxPlanBytes = 5_000
const weightBytes = 12
/** Limit on postings read for all terms, the rarest first, so that a long question takes bounded time. */
const maxPostings = 400_000
/** Longer queries are refused. */
export const maxQuery = 1_048_576
/** Characters of a query that are tokenized at a time; the whole is read until it has `maxTokens` tokens. */
const sliceLength = 16_384
/** More than texts of the longest query have; only characters that stand for several words reach it. */
const maxTokens = 262_144
const maxQueryTokens = 256
/** Words ranked at a time, so that ranking takes time linear in the length of a query. */
const rankedAtOnce = 4_096
const leastCommon = 5_000
/** A query of at most this many words is always keywords. */
const fewWords = 4
const scaleUnit = 10_000
const prefixes = { least: 3, limit: 4, scan: 64, weight: 0.4 }
const inflected = { least: 3, scan: 64, weight: 0.6 }
const typos = { least: 4, twice: 8, limit: 4, weight: 0.5, words: 8 }

/** Turns a query into terms of the index: its words, longer words with them as prefix, and corrected typos. */
export function makePlan(query: string, dictionary: Dictionary, documents: number, totalLength: number): Plan {
  const { style, tokens } = readQuery(query, dictionary)
  const scales = new Map<string, number>()
  const budget = { corrected: typos.words }
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

/** The terms with the most weight that fit the limits of a plan. */
function bounded(scales: ReadonlyMap<string, number>, dictionary: Dictionary): readonly WeightedTerm[] {
  const significant = [...scales].sort(([a, one], [b, other]) => other - one || (a < b ? -1 : 1))
  const kept: WeightedTerm[] = []
  let bytes = 0
  let postings = 0
  for (const weighted of significant) {
    const [term] = weighted
    bytes += utf8Length(term) + weightBytes
    postings += dictionary.frequency(dictionary.find(term))
    const full = kept.length === maxTerms || bytes > maxPlanBytes || postings > maxPostings
    if (full && kept.length > 0) break
    kept.push(weighted)
  }
  return kept
}

/** Separates terms that a quarter of a large corpus holds: searching by them is costly and discriminates little. */
function parted(all: readonly WeightedTerm[], dictionary: Dictionary, documents: number) {
  const most = Math.max(leastCommon, documents / 4)
  const isRare = ([term]: WeightedTerm): boolean => dictionary.frequency(dictionary.find(term)) <= most
  const terms = all.filter(isRare)
  if (terms.length === 0 || terms.length === all.length) return { terms: all, refining: [] }
  return { terms, refining: all.filter((weighted) => !isRare(weighted)) }
}

/**
 * The distinct words of a query, the rarest when there are too many. A query without spaces, with few words, or without
 * stop words is keywords; anything else is a question, whose conversational words are dropped.
 */
function readQuery(query: string, dictionary: Dictionary): { style: QueryStyle; tokens: readonly string[] } {
  const text = query.slice(0, maxQuery).trim()
  const words = wordsOf(text)
  const significant = [...words].filter((token) => !isCommon(token))
  const spelled = !/\s/.test(text) || significant.length === words.size
  const style = spelled || significant.length <= fewWords ? 'keywords' : 'question'
  const asked = style === 'question' ? significant.filter((token) => !isConversational(token)) : significant
  const tokens = [asked, significant, [...words]].find((some) => some.length > 0) ?? []
  return { style, tokens: tokens.length <= maxQueryTokens ? tokens : rarest(tokens, dictionary) }
}

function wordsOf(text: string): ReadonlySet<string> {
  const words = new Set<string>()
  let count = 0
  for (let start = 0; start < text.length && count < maxTokens; ) {
    const slice = text.slice(start, start + sliceLength)
    const isLast = start + sliceLength >= text.length
    const space = isLast ? -1 : Math.max(slice.lastIndexOf(' '), slice.lastIndexOf('\n'))
    const end = start + (space > 0 ? space : slice.length)
    const tokens: string[] = []
    tokenize(text.slice(start, end), tokens, maxTokens - count)
    for (const token of tokens) words.add(token)
    count += tokens.length
    start = end
  }
  return words
}

/** Unknown words come last: they may be typos, but most are values in a question. */
function rarest(tokens: readonly string[], dictionary: Dictionary): readonly string[] {
  let ranked: { readonly token: string; readonly frequency: number }[] = []
  const keepRarest = (): void => {
    ranked.sort((a, b) => a.frequency - b.frequency || (a.token < b.token ? -1 : 1))
    ranked = ranked.slice(0, maxQueryTokens)
  }
  for (const token of tokens) {
    const number = dictionary.find(token)
    ranked.push({ token, frequency: (number < 0 ? 0 : dictionary.frequency(number)) || Number.MAX_SAFE_INTEGER })
    if (ranked.length === rankedAtOnce) keepRarest()
  }
  keepRarest()
  return ranked.map(({ token }) => token)
}

type Expansion = readonly [number: number, weight: number, ceiling: (documents: number) => number]

const unlimited = () => Number.POSITIVE_INFINITY

/** A longer, inflected or corrected word never weighs more than the word itself, however rare it is. */
function expand(
  token: string,
  style: QueryStyle,
  dictionary: Dictionary,
  budget: { corrected: number },
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
  if (split.length > 0 || budget.corrected === 0) return split
  budget.corrected -= 1
  return corrected(token, dictionary)
}

/** Inflected forms of a word: `booked` and `booking` for `book`. */
function inflections(token: string, dictionary: Dictionary): readonly number[] {
  const root = rootOf(token)
  if (root.length < inflected.least) return []
  return dictionary
    .withPrefix(root, inflected.scan, inflected.scan)
    .concat(root === token ? [] : dictionary.find(root))
    .filter((number) => number >= 0 && dictionary.frequency(number) > 0 && rootOf(dictionary.term(number)) === root)
}

/** Splits `createissue` into `create` and `issue` when both are known terms; the rarer pair wins. */
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

function corrected(token: string, dictionary: Dictionary): readonly Expansion[] {
  if (token.length < typos.least) return []
  const edits = token.length >= typos.twice ? 2 : 1
  return dictionary
    .similar(token, edits, typos.limit)
    .map((match) => [match.number, typos.weight / match.edits, unlimited])
}

/** The weight of a term, by how few documents hold it (BM25's idf, never negative). */
function inverse(documents: number, frequency: number): number {
  return Math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))
}
