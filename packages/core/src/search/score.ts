import type { Dictionary } from './dictionary.ts'
import { boostOf, repeatsOf } from './document.ts'
import { type Documents, loweredFlag, removedFlag } from './documents.ts'
import type { Plan, QueryStyle, WeightedTerm } from './plan.ts'
import { firstChunk, nextChunk, type Postings } from './postings.ts'
import type { Candidates } from './top.ts'

/**
 * BM25's saturation and length normalisation in units of a word of a description, and how much of the boost of a name
 * counts. Chosen on one half of public sets of questions; docs/benchmarks.md has the recall on the other.
 */
const styles = {
  keywords: { k1: 4, b: 0.4, boost: 1 },
  question: { k1: 1.5, b: 0.75, boost: 0.1 },
} as const satisfies { readonly [style in QueryStyle]: object }
const lowered = 0.5

/** Room for one pass over the postings, used again by the next. */
export class Scratch {
  scores = new Int32Array(0)
  numbers = new Uint32Array(0)

  /** Makes room for so many documents; all scores are zero between uses. */
  fit(documents: number): void {
    if (documents <= this.scores.length) return
    this.scores = new Int32Array(documents + (documents >> 1))
    this.numbers = new Uint32Array(this.scores.length)
  }

  clear({ numbers, count }: Candidates): void {
    for (let index = 0; index < count; index += 1) this.scores[numbers[index] ?? 0] = 0
  }
}

/** What one pass reads. */
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

/** Adds one term's part to the scores of its documents; gives the new number of candidates. */
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

/** The denominator's part that depends on a document's length, for every shape of a live document. */
function normTable({ style, averageLength }: Plan): Float64Array {
  const { k1, b } = styles[style]
  const norms = new Float64Array(removedFlag)
  for (let shape = 0; shape < removedFlag; shape += 1) {
    norms[shape] = k1 * (1 - b + (b * (shape & 255)) / averageLength)
  }
  return norms
}

/** What each weight byte of a posting counts. */
function weightTable(style: QueryStyle): Float64Array {
  const { boost } = styles[style]
  return Float64Array.from({ length: 256 }, (_, byte) => boostOf(byte) * boost + repeatsOf(byte))
}
