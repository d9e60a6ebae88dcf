import { cutStart, jsonBytes, mostShown, wholeEnd } from '@gantry/core/internal/artifacts/show-bytes'

/** A place where the text stands. */
export interface Match {
  /** The first line is 1. */
  readonly line: number
  /** In bytes from the beginning of the file. */
  readonly offset: number
  /** The text with what stands around it. */
  readonly text: string
}

export interface SearchResult {
  readonly matches: readonly Match[]
  /** Where the next match is, when there are more than were asked for or can be shown. */
  readonly next?: number
}

export interface TextSearch {
  readonly text: string
  readonly limit: number
  /** Bytes to show on either side. */
  readonly context: number
  /** Matches before this offset are passed over. */
  readonly from: number
}

/**
 * Looks for a text in content that comes in pieces, and stops once there are enough matches. It holds no more than a piece
 * and what stands around a match.
 */
export async function searchText(content: AsyncIterable<Buffer>, search: TextSearch): Promise<SearchResult> {
  const finder = createFinder(search)
  for await (const piece of content) if (finder.add(piece)) return finder.result()
  finder.end()
  return finder.result()
}

function createFinder({ text, limit, context, from }: TextSearch) {
  const needle = Buffer.from(text)
  const matches: Match[] = []
  let next: number | undefined
  let room = mostShown
  /** What is looked at, where it lies in the file, and how far it was searched. */
  let window = Buffer.alloc(0)
  let base = 0
  let at = 0
  let line = 1
  let counted = 0

  const countTo = (end: number): void => {
    for (
      let index = window.indexOf(0x0a, counted);
      index >= 0 && index < end;
      index = window.indexOf(0x0a, index + 1)
    ) {
      line++
    }
    counted = Math.max(counted, end)
  }
  /** Takes a match; false when it is one too many. */
  const take = (index: number): boolean => {
    if (base + index < from) return true
    const shown = around(window, index - context, index + needle.length + context)
    room -= jsonBytes(shown)
    if (matches.length === limit || (room < 0 && matches.length > 0)) {
      next = base + index
      return false
    }
    matches.push({ line, offset: base + index, text: shown })
    return true
  }
  const look = (isEnd: boolean): boolean => {
    for (let index = window.indexOf(needle, at); index >= 0; index = window.indexOf(needle, at)) {
      at = index
      // What follows is to be shown too.
      if (!isEnd && index + needle.length + context > window.length) return false
      countTo(index)
      if (!take(index)) return true
      at = index + needle.length
    }
    at = Math.max(at, window.length - needle.length + 1)
    return false
  }
  const forget = (): void => {
    const gone = Math.max(0, at - context)
    countTo(gone)
    window = window.subarray(gone)
    base += gone
    at -= gone
    counted -= gone
  }
  return {
    /** True when there are enough. */
    add(piece: Buffer): boolean {
      window = Buffer.concat([window, piece])
      if (look(false)) return true
      forget()
      return false
    },
    end: (): void => void look(true),
    result: (): SearchResult => (next === undefined ? { matches } : { matches, next }),
  }
}

/** A part of the window as text, without characters that were cut at its ends. */
function around(window: Buffer, start: number, end: number): string {
  const part = window.subarray(Math.max(0, start), end)
  return part.subarray(cutStart(part), wholeEnd(part)).toString()
}
