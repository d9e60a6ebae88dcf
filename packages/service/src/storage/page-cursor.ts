import { ToolError } from '@gantry/contract'

/** Where a list ordered by time and id stands: its last item. */
export interface PageCursor {
  /** In microseconds, as the database has it; a Date would lose digits and with them items. */
  readonly at: string
  readonly id: string
}

/** Before the first item of every list. */
const first: PageCursor = { at: 'infinity', id: '' }
const pattern = /^([12]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) (\P{Cc}{1,512})$/u
const longest = 3_000

/** A place as opaque text. */
export function writeCursor({ at, id }: PageCursor): string {
  return Buffer.from(`${at} ${id}`).toString('base64url')
}

/** Reads a cursor that came from outside; INPUT_INVALID for one that no list gave. */
export function readCursor(cursor: string | undefined): PageCursor {
  if (cursor === undefined) return first
  const text = cursor.length > longest ? '' : Buffer.from(cursor, 'base64url').toString()
  const [, at, id] = pattern.exec(text) ?? []
  if (at !== undefined && id !== undefined && isTime(at)) return { at, id }
  const message = 'is not a cursor that this list gave'
  throw new ToolError('INPUT_INVALID', `The cursor ${message}; start again without it.`, {
    details: { issues: [{ path: '/cursor', message }] },
  })
}

/** Whether there is such a day; the database refuses the others. */
function isTime(at: string): boolean {
  const date = new Date(at)
  return !Number.isNaN(date.getTime()) && date.toISOString().slice(0, 19) === at.slice(0, 19)
}
