import { ToolError } from '@gantry/contract'

/** Characters of one line or one event beyond which a stream is given up. */
export const longestPiece = 1_048_576

/** Takes a text apart that comes in pieces. */
export interface LineReader {
  /** The lines that this piece ends. */
  push(piece: string): string[]
  /** The last line, when the text ended without ending it. */
  end(): string | undefined
}

/** Lines end with CR, LF or both, wherever the pieces are split; what is kept of an unended line is searched once. */
export function createLineReader(limit: number = longestPiece): LineReader {
  let kept: string[] = []
  let size = 0
  let afterReturn = false
  const keep = (part: string): void => {
    size += part.length
    if (size > limit) throw tooLong(limit)
    if (part !== '') kept.push(part)
  }
  const take = (): string => {
    const line = kept.join('')
    kept = []
    size = 0
    return line
  }
  return {
    push(piece) {
      if (piece === '') return []
      const lines: string[] = []
      let from = afterReturn && piece.startsWith('\n') ? 1 : 0
      afterReturn = piece.endsWith('\r')
      const ends = /\r\n|\r|\n/g
      ends.lastIndex = from
      for (let end = ends.exec(piece); end !== null; end = ends.exec(piece)) {
        keep(piece.slice(from, end.index))
        lines.push(take())
        from = ends.lastIndex
      }
      keep(piece.slice(from))
      return lines
    },
    end: () => (size === 0 ? undefined : take()),
  }
}

export function tooLong(limit: number): ToolError {
  return new ToolError('RESULT_TOO_LARGE', `The stream has a line or an event of more than ${limit} characters.`)
}
