import { createRedactor } from '../../json/redact.ts'

/** A short piece of what a server sent, as it may stand in an error. */
export type Excerpt = (text: string, limit: number) => string

/**
 * Makes excerpts for one call. The secrets of the request are taken out before the cut, because a server may send them
 * back and half of one would be found by nobody later; then everything that could move a cursor or a reader is escaped.
 */
export function createExcerpt(secrets: readonly string[]): Excerpt {
  return (text, limit) => {
    const redactor = createRedactor({ values: secrets, keys: false })
    const piece = text.slice(0, limit * 4)
    const pieces = redactor.pieces()
    const whole = piece.length === text.length
    const shown = pieces.push(piece) + (whole ? pieces.end() : '')
    const escaped = shown.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, escapeCharacter)
    return whole && escaped.length <= limit ? escaped : `${escaped.slice(0, limit - 1)}…`
  }
}

function escapeCharacter(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`
}
