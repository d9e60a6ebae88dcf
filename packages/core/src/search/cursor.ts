import { ToolError } from '@gantry/contract'
import { digestOf } from '../json/canonical.ts'
import { maxScale, maxTerms, type Plan, type QueryStyle, type WeightedTerm } from './plan.ts'
import type { RankPosition } from './score.ts'

const maxCursor = 8_192
const alphabet = /^[A-Za-z0-9_-]+$/

/** Encodes the state of the next page as opaque text: the kind, then plain values. */
export function encodeCursor(kind: string, values: readonly unknown[]): string {
  return Buffer.from(JSON.stringify([kind, ...values])).toString('base64url')
}

/** Decodes the values of a cursor of this kind; the caller must check each of them. */
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

/** Binds a cursor to its query; the digest is long enough that two queries do not collide by accident. */
export function queryDigest(query: unknown): string {
  return digestOf(query).slice(0, 16)
}

/** The error for a cursor that this query cannot continue from. */
export function cursorFault(message = 'is not a cursor of this query', cause?: unknown): ToolError {
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

/** The position of a search: its last hit, and every number that its scores depend on. */
export interface SearchCursor {
  readonly plan: Plan
  readonly last: RankPosition
  /** The highest word score of the first page of a search with an embedder; 0 without one. */
  readonly top: number
}

/** Encodes a position as a cursor that only the same query can continue from. */
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

/** Decodes a cursor; refuses anything that `writeSearchCursor` cannot have written for this query. */
export function readSearchCursor(digest: string, cursor: string): SearchCursor {
  const [found, style, averageLength, terms, refining, score, key, top, ...rest] = decodeCursor(kind, cursor)
  if (found !== digest) throw cursorFault('belongs to another query or other filters')
  if (!isStyle(style)) throw cursorFault()
  if (rest.length > 0 || !isNumber(averageLength, 1, 255) || !isWeighted(terms) || !isWeighted(refining)) {
    throw cursorFault()
  }
  if (!isNumber(score, 1, maxScore) || !isNumber(top, 0, maxScore)) throw cursorFault()
  if (typeof key !== 'string' || key.length > maxKey || terms.length + refining.length > maxTerms) throw cursorFault()
  return { plan: { style, averageLength, terms, refining }, last: { score, key }, top }
}

function isStyle(value: unknown): value is QueryStyle {
  return styles.includes(value)
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
