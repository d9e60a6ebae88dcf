import { type Dictionary, firstChunk, nextChunk, type Postings } from './dictionary.ts'
import { boostOf, type Documents, loweredFlag, removedFlag, repeatsOf } from './document.ts'
import type { Plan, QueryStyle, WeightedTerm } from './plan.ts'

/**
 * BM25's saturation and length normalisation in units of a word of a description, and how much of the boost of a name
 * counts. Chosen on one half of public sets of questions; docs/benchmarks.md has the recall on the other.
 */
const styles = {
  keywords: { k1: 4, b: 0.4, boost: 1 },
  question: { k1: 1.5, b: 0.75, boost: 0.1 },
} as const satisfies { readonly [style in QueryStyle]: object }
const lowered = 0.5

/** Buffers for one pass over the postings, reused by the next pass. */
export class Scratch {
  scores = new Int32Array(0)
  numbers = new Uint32Array(0)

  /** Grows the buffers for this many documents; all scores are zero between uses. */
  fit(documents: number): void {
    if (documents <= this.scores.length) return
    this.scores = new Int32Array(documents + (documents >> 1))
    this.numbers = new Uint32Array(this.scores.length)
  }

  clear({ numbers, count }: Candidates): void {
    for (let index = 0; index < count; index += 1) this.scores[numbers[index] ?? 0] = 0
  }
}

/** The data that one pass reads. */
export interface Corpus {
  readonly dictionary: Dictionary
  readonly postings: Postings
  readonly documents: Documents
}

/**
 * Scores every document that holds a term of the plan. Each contribution is rounded to a whole number,
 * so that the sum, unlike one of fractions, does not depend on the order of the terms.
 */
export function scoreAll(plan: Plan, corpus: Corpus, scratch: Scratch): Candidates {
  scratch.fit(corpus.documents.end)
  const tables = { norms: normTable(plan), weights: weightTable(plan.style) }
  let count = 0
  for (const weighted of plan.terms) count = addTerm(weighted, corpus, tables, scratch, count, true)
  for (const weighted of plan.refining) addTerm(weighted, corpus, tables, scratch, count, false)
  const { keys, prefixes } = corpus.documents
  return { numbers: scratch.numbers, count, scores: scratch.scores, keys, prefixes }
}

/** Adds the score of one term to its documents; returns the new number of candidates. */
function addTerm(
  [term, scale]: WeightedTerm,
  { dictionary, postings, documents: { shapes } }: Corpus,
  { norms, weights }: { readonly norms: Float64Array; readonly weights: Float64Array },
  { scores, numbers }: Scratch,
  found: number,
  finds: boolean,
): number {
  const number = dictionary.find(term)
  if (number < 0) return found
  const { cells } = postings
  let count = found
  let chunk = postings.head(number)
  let left = postings.count(number)
  for (let size = firstChunk; left > 0; size = nextChunk(size)) {
    const end = chunk + 1 + Math.min(size, left)
    for (let at = chunk + 1; at < end; at += 1) {
      const posting = cells[at] ?? 0
      const document = posting >>> 8
      const score = scores[document] ?? 0
      if (score === 0 && !finds) continue
      const weight = weights[posting & 255] ?? 0
      const shape = shapes[document] ?? removedFlag
      if (shape >= removedFlag) continue
      if (score === 0) numbers[count++] = document
      const part = (scale * weight) / (weight + (norms[shape] ?? 0))
      scores[document] = score + 1 + ((shape >= loweredFlag ? part * lowered : part) | 0)
    }
    left -= size
    chunk = cells[chunk] ?? 0
  }
  return count
}

/** The length-dependent part of the BM25 denominator, for every shape of a live document. */
function normTable({ style, averageLength }: Plan): Float64Array {
  const { k1, b } = styles[style]
  const norms = new Float64Array(removedFlag)
  for (let shape = 0; shape < removedFlag; shape += 1) {
    norms[shape] = k1 * (1 - b + (b * (shape & 255)) / averageLength)
  }
  return norms
}

/** The weight of each weight byte of a posting. */
function weightTable(style: QueryStyle): Float64Array {
  const { boost } = styles[style]
  return Float64Array.from({ length: 256 }, (_, byte) => boostOf(byte) * boost + repeatsOf(byte))
}

/** A position in the order of results: higher scores first, ties by key. */
export interface RankPosition {
  readonly score: number
  readonly key: string
}

/** A found document with its score. */
export type Hit = RankPosition

/** Documents to choose from; scores and keys are by document number. */
export interface Candidates {
  readonly numbers: Uint32Array
  readonly count: number
  readonly scores: Int32Array
  readonly keys: readonly string[]
  /** `keyPrefix` of each key, which decides most ties without reading the key. */
  readonly prefixes: Float64Array
}

const prefixLength = 7

/** The first seven characters of a key as a number that sorts as they do; characters beyond ASCII count as equal. */
export function keyPrefix(key: string): number {
  let number = 0
  for (let index = 0; index < prefixLength; index += 1) {
    number = number * 128 + (index < key.length ? Math.min(key.charCodeAt(index), 127) : 0)
  }
  return number
}

/** The best `size` candidates after a position, best first; uses a heap of that size instead of a full sort. */
function best(candidates: Candidates, after: RankPosition | undefined, size: number): number[] {
  const { numbers, count, scores, keys, prefixes } = candidates
  const heap: number[] = []
  const worse = (a: number, b: number): boolean => {
    const byScore = (scores[a] ?? 0) - (scores[b] ?? 0)
    if (byScore !== 0) return byScore < 0
    const byPrefix = (prefixes[a] ?? 0) - (prefixes[b] ?? 0)
    return byPrefix === 0 ? (keys[a] ?? '') > (keys[b] ?? '') : byPrefix > 0
  }
  let least = 0
  for (let index = 0; index < count; index += 1) {
    const number = numbers[index] ?? 0
    const score = scores[number] ?? 0
    if (score < least || score === 0) continue
    if (after !== undefined && (score > after.score || (score === after.score && (keys[number] ?? '') <= after.key))) {
      continue
    }
    if (heap.length < size) rise(heap, number, worse)
    else if (worse(heap[0] ?? 0, number)) sink(heap, number, worse)
    if (heap.length === size) least = scores[heap[0] ?? 0] ?? 0
  }
  return heap.sort((a, b) => (worse(a, b) ? 1 : -1))
}

type Worse = (a: number, b: number) => boolean

/** Adds to a heap whose root is the worst. */
function rise(heap: number[], number: number, worse: Worse): void {
  let at = heap.push(number) - 1
  while (at > 0) {
    const parent = (at - 1) >> 1
    const above = heap[parent] ?? 0
    if (!worse(number, above)) break
    heap[at] = above
    at = parent
  }
  heap[at] = number
}

/** Replaces the root, which is the worst. */
function sink(heap: number[], number: number, worse: Worse): void {
  let at = 0
  for (;;) {
    let child = at * 2 + 1
    if (child >= heap.length) break
    if (child + 1 < heap.length && worse(heap[child + 1] ?? 0, heap[child] ?? 0)) child += 1
    if (!worse(heap[child] ?? 0, number)) break
    heap[at] = heap[child] ?? 0
    at = child
  }
  heap[at] = number
}

/** The best allowed candidates after a position, taken in growing batches until enough are allowed. */
export function pick(
  candidates: Candidates,
  after: RankPosition | undefined,
  limit: number,
  allow: ((key: string) => boolean) | undefined,
): Hit[] {
  const hits: Hit[] = []
  let place = after
  for (let size = limit; hits.length < limit; size *= 4) {
    const batch = best(candidates, place, size)
    for (const number of batch) {
      place = { score: candidates.scores[number] ?? 0, key: candidates.keys[number] ?? '' }
      if (hits.length < limit && (allow === undefined || allow(place.key))) hits.push(place)
    }
    if (batch.length < size) break
  }
  return hits
}
