import { createRedactor } from '../../json/redact.ts'

/** A short piece of what a server sent, as it may stand in an error; `whole` is false for a text that was cut already. */
export type Excerpt = (text: string, limit: number, whole?: boolean) => string

/**
 * Makes excerpts for one call. The secrets of the request are taken out before the cut, because a server may send them
 * back and half of one would be found by nobody later; then everything that could move a cursor or a reader is escaped.
 */
export function createExcerpt(secrets: readonly string[]): Excerpt {
  return (text, limit, complete = true) => {
    const redactor = createRedactor({ values: secrets, keys: false })
    // The end of what is not the whole text may be half a secret, and is not shown.
    const piece = text.slice(0, limit * 4 + redactor.reach)
    const pieces = redactor.pieces()
    const whole = complete && piece.length === text.length
    const shown = pieces.push(piece) + (whole ? pieces.end() : '')
    const escaped = shown.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, escapeCharacter)
    return whole && escaped.length <= limit ? escaped : `${escaped.slice(0, limit - 1)}…`
  }
}

function escapeCharacter(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`
}
