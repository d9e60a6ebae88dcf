import { ToolError } from '@gantry/contract'

/** Characters of one line or one event beyond which a stream is given up. */
const longestPiece = 1_048_576

/** Takes a text apart that comes in pieces. */
interface LineReader {
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

function tooLong(limit: number): ToolError {
  return new ToolError('RESULT_TOO_LARGE', `The stream has a line or an event of more than ${limit} characters.`)
}

/** One server-sent event. */
export interface ServerEvent {
  /** `message` unless the server named it. */
  readonly event: string
  readonly data: string
  /** The last id that the server gave, of this event or of one before. */
  readonly id: string
}

/**
 * Reads server-sent events as the HTML standard says, from text in pieces (a BOM is gone already).
 * Lines add to the event that is being read; an empty line ends it, and it counts when it has data. What follows the
 * last empty line never became an event. `retry` is for those who connect again, which a call does not.
 */
export function createEventReader(limit: number = longestPiece): { push(piece: string): ServerEvent[] } {
  const lines = createLineReader(limit)
  let event = ''
  let data: string[] = []
  let size = 0
  let id = ''

  const field = (line: string): void => {
    const colon = line.indexOf(':')
    const name = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (name === 'event') event = value
    else if (name === 'id' && !value.includes('\0')) id = value
    else if (name === 'data') {
      size += value.length + 1
      if (size > limit) throw tooLong(limit)
      data.push(value)
    }
  }
  const dispatch = (): ServerEvent[] => {
    const found = data.length === 0 ? [] : [{ event: event || 'message', data: data.join('\n'), id }]
    event = ''
    data = []
    size = 0
    return found
  }
  return {
    push: (piece) =>
      lines.push(piece).flatMap((line) => {
        if (line === '') return dispatch()
        field(line)
        return []
      }),
  }
}
