import { tokenize } from '@gantry/core/internal/search/tokenize'

/** A piece of a text. */
export interface Chunk {
  /** In UTF-16 units. */
  readonly start: number
  readonly text: string
}

const mostUnits = 1_200
/** What an index reads of a piece, with room for title and tags; scripts without spaces have many for their length. */
const mostTokens = 150
/** Where to cut, best first; each is looked for in the second half of what fits. */
const seams: readonly RegExp[] = [/\n\s*\n/g, /\n/g, /[.!?][)"'”’]?\s|[。！？]/g, /\s/g]

/** Cuts a text into pieces, between paragraphs, lines, sentences or words where it can; joined they are the text. */
export function* splitText(text: string): Generator<Chunk, void> {
  for (let start = 0; start < text.length; ) {
    const end = endOf(text, start)
    yield { start, text: text.slice(start, end) }
    start = end
  }
}

function endOf(text: string, start: number): number {
  const window = text.slice(start, start + mostUnits)
  const tokens: string[] = []
  tokenize(window, tokens, mostUnits)
  const room = tokens.length <= mostTokens ? window.length : Math.floor((window.length * mostTokens) / tokens.length)
  if (start + room >= text.length) return text.length
  return start + whole(window, seamIn(window.slice(0, room)) ?? room)
}

/** Behind the last seam of the best kind that there is. */
function seamIn(window: string): number | undefined {
  const half = window.length >> 1
  for (const seam of seams) {
    let last: number | undefined
    for (const match of window.slice(half).matchAll(seam)) last = half + match.index + match[0].length
    if (last !== undefined) return last
  }
  return undefined
}

/** Not between the two halves of a character. */
function whole(window: string, at: number): number {
  const code = window.charCodeAt(at - 1)
  return at > 1 && code >= 0xd800 && code <= 0xdbff ? at - 1 : at
}
