import { cursorFault, decodeCursor, encodeCursor } from './cursor.ts'
import { maxScale, maxTerms, type Plan, type QueryStyle, type WeightedTerm } from './plan.ts'
import type { Place } from './top.ts'

const kind = 's2'
const styles: readonly unknown[] = ['keywords', 'question'] satisfies readonly QueryStyle[]
const maxScore = 2 ** 31
const maxKey = 512
const maxTermLength = 128

/** Where a search stands: its last hit, and all numbers that its scores were made with. */
export interface SearchPlace {
  readonly plan: Plan
  readonly last: Place
  /** The highest score by words on the first page when meaning took part in it; 0 when it did not. */
  readonly top: number
}

/** Writes a place as a cursor that only the same query can go on from. */
export function writePlace(digest: string, { plan, last, top }: SearchPlace): string {
  return encodeCursor(kind, [
    digest,
    plan.style,
    plan.averageLength,
    plan.terms,
    plan.refining,
    last.score,
    last.key,
    top,
  ])
}

/** Reads a cursor; anything but what `writePlace` could have written for this query is refused. */
export function readPlace(digest: string, cursor: string): SearchPlace {
  const [found, style, averageLength, terms, refining, score, key, top, ...rest] = decodeCursor(kind, cursor)
  if (found !== digest) throw cursorFault('belongs to another query or other filters')
  if (!styles.includes(style)) throw cursorFault()
  if (rest.length > 0 || !isNumber(averageLength, 1, 255) || !isWeighted(terms) || !isWeighted(refining)) {
    throw cursorFault()
  }
  if (!isNumber(score, 1, maxScore) || !isNumber(top, 0, maxScore)) throw cursorFault()
  if (typeof key !== 'string' || key.length > maxKey || terms.length + refining.length > maxTerms) throw cursorFault()
  return { plan: { style: style as QueryStyle, averageLength, terms, refining }, last: { score, key }, top }
}

function isNumber(value: unknown, least: number, most: number): value is number {
  return typeof value === 'number' && value >= least && value <= most
}

function isWeighted(value: unknown): value is readonly WeightedTerm[] {
  return Array.isArray(value) && value.length <= maxTerms && value.every(isTerm)
}

function isTerm(value: unknown): value is WeightedTerm {
  if (!Array.isArray(value) || value.length !== 2) return false
  const [term, scale] = value
  return (
    typeof term === 'string' &&
    term.length <= maxTermLength &&
    Number.isInteger(scale) &&
    scale >= 1 &&
    scale <= maxScale
  )
}
