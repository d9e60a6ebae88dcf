import { type Paged, ToolError } from '@gantry/contract'

/** The last item of a page of a list ordered by time and id. */
export interface PageCursor {
  /** In microseconds, as in the database; a Date would lose precision and skip items. */
  readonly at: string
  readonly id: string
}

/** Before the first item of every list. */
const first: PageCursor = { at: 'infinity', id: '' }
const pattern = /^([12]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) (\P{Cc}{1,512})$/u
const longest = 3_000

const usualPage = 50
const largestPage = 200

/** The page size for the limit of a request. */
export function pageSize(limit: number = usualPage): number {
  return Math.min(Math.max(1, limit), largestPage)
}

/** The page of rows that a query read. The query reads one more row, which decides whether there is a cursor. */
export function pageOf<Row extends { readonly place: string }, Item>(
  rows: readonly Row[],
  most: number,
  { itemOf, idOf }: { readonly itemOf: (row: Row) => Item; readonly idOf: (row: Row) => string },
): Paged<Item> {
  const items = rows.slice(0, most).map(itemOf)
  const last = rows[most - 1]
  if (last === undefined || rows.length <= most) return { items }
  return { items, cursor: writeCursor({ at: last.place, id: idOf(last) }) }
}

/** The SQL expression for the time of a row as `at` of its cursor has it. */
export function cursorTime(column: string): string {
  return `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
}

/** A cursor as opaque text. */
function writeCursor({ at, id }: PageCursor): string {
  return encoded(`${at} ${id}`)
}

/** The cursor of a list that is ordered by a number; the text has the name of the list. */
export function writeNumberCursor(list: string, before: number): string {
  return encoded(`${list} ${before}`)
}

/** Parses an untrusted cursor of `writeNumberCursor`; throws INPUT_INVALID. */
export function readNumberCursor(list: string, cursor: string): number {
  const [name, digits = '', ...more] = decoded(cursor).split(' ')
  if (name === list && more.length === 0 && /^\d{1,15}$/.test(digits)) return Number(digits)
  throw unknownCursor()
}

function encoded(text: string): string {
  return Buffer.from(text).toString('base64url')
}

/** Empty for a text that is too long for a cursor. */
function decoded(cursor: string): string {
  return cursor.length > longest ? '' : Buffer.from(cursor, 'base64url').toString()
}

/** Parses an untrusted cursor; throws INPUT_INVALID. */
export function readCursor(cursor: string | undefined): PageCursor {
  if (cursor === undefined) return first
  const [, at, id] = pattern.exec(decoded(cursor)) ?? []
  if (at !== undefined && id !== undefined && isTime(at)) return { at, id }
  throw unknownCursor()
}

function unknownCursor(): ToolError {
  const message = 'is not a cursor of this list'
  return new ToolError('INPUT_INVALID', `The cursor ${message}; start again without it.`, {
    details: { issues: [{ path: '/cursor', message }] },
  })
}

/** Whether the date exists; the database refuses others. */
function isTime(at: string): boolean {
  const date = new Date(at)
  return !Number.isNaN(date.getTime()) && date.toISOString().slice(0, 19) === at.slice(0, 19)
}

export interface PageQuery {
  readonly limit?: number
  readonly cursor?: string
}
