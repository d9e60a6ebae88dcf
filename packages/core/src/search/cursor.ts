import { ToolError } from '@gantry/contract'
import { digestOf } from '../json/canonical.ts'

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
