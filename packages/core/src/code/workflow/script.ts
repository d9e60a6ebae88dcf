import type { Place } from './tokens.ts'

/** A script in pieces: text without line breaks, and where in the source the text behind it comes from. */
export type Piece = string | Place | readonly Piece[]

/** A place in the script, from 1 on, and the one in the source that it came from. */
interface Mark {
  readonly at: Place
  readonly from: Place
}

/** A script that keeps the lines of what it is made from. */
export interface Script {
  readonly text: string
  /** Where a place of the script came from; undefined for one before all marks. */
  source(at: Place): Place | undefined
}

export function joinScript(pieces: Piece): Script {
  const parts: string[] = []
  const marks: Mark[] = []
  let line = 1
  let column = 1
  const add = (piece: Piece): void => {
    if (typeof piece === 'string') {
      parts.push(piece)
      column += piece.length
    } else if (isPlace(piece)) {
      for (; line < piece.line; line++, column = 1) parts.push('\n')
      marks.push({ at: { line, column }, from: { line: piece.line, column: piece.column } })
    } else {
      for (const each of piece) add(each)
    }
  }
  add(pieces)
  return {
    text: parts.join(''),
    source: (place) => lastBefore(marks, place)?.from,
  }
}

/** Marks are in the order of the script, and a stack or a list of diagnostics asks for many. */
function lastBefore(marks: readonly Mark[], place: Place): Mark | undefined {
  let low = 0
  let high = marks.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const mark = marks[middle]
    if (mark !== undefined && isBefore(mark.at, place)) low = middle + 1
    else high = middle
  }
  return marks[low - 1]
}

function isPlace(piece: Exclude<Piece, string>): piece is Place {
  return !Array.isArray(piece)
}

function isBefore(one: Place, other: Place): boolean {
  return one.line < other.line || (one.line === other.line && one.column <= other.column)
}
