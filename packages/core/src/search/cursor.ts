import { ToolError } from '@gantry/contract'
import { digestOf } from '../json/canonical.ts'
import { maxScale, maxTerms, type Plan, type QueryStyle, type WeightedTerm } from './plan.ts'
import type { RankPosition } from './score.ts'

const maxCursor = 8_192
const alphabet = /^[A-Za-z0-9_-]+$/

/** Writes what a next page needs as opaque text: its kind, then plain values. */
export function encodeCursor(kind: string, values: readonly unknown[]): string {
  return Buffer.from(JSON.stringify([kind, ...values])).toString('base64url')
}

/** Reads the values of a cursor of this kind; they are still to be checked one by one. */
export function decodeCursor(kind: string, cursor: string): readonly unknown[] {
  if (typeof cursor !== 'string' || cursor.length > maxCursor || !alphabet.test(cursor)) throw cursorFault()
  let values: unknown
  try {
    values = JSON.parse(Buffer.from(cursor, 'base64url').toString())
  } catch (cause) {
    throw cursorFault(undefined, cause)
  }
  if (!Array.isArray(values) || values[0] !== kind) throw cursorFault()
  return values.slice(1)
}

/** Ties a cursor to its query: enough of a digest that nobody hits another by accident. */
export function queryDigest(query: unknown): string {
  return digestOf(query).slice(0, 16)
}

/** The error for a cursor that this query cannot go on from. */
export function cursorFault(message = 'is not a cursor that this query gave', cause?: unknown): ToolError {
  const issues = [{ path: '/cursor', message }]
  return new ToolError('INPUT_INVALID', `The cursor ${message}; start again without it.`, {
    details: { issues },
    ...(cause === undefined ? {} : { cause }),
  })
}

const kind = 's2'
const styles: readonly unknown[] = ['keywords', 'question'] satisfies readonly QueryStyle[]
const maxScore = 2 ** 31
const maxKey = 512
const maxTermLength = 128

/** Where a search stands: its last hit, and all numbers that its scores were made with. */
export interface SearchCursor {
  readonly plan: Plan
  readonly last: RankPosition
  /** The highest score by words on the first page when meaning took part in it; 0 when it did not. */
  readonly top: number
}

/** Writes a place as a cursor that only the same query can go on from. */
export function writeSearchCursor(digest: string, { plan, last, top }: SearchCursor): string {
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
export function readSearchCursor(digest: string, cursor: string): SearchCursor {
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
