/** A text without its line breaks, and the way back. */
export interface Joined {
  readonly text: string
  /** Where a character of the joined text stands in the one that it came from. */
  place(index: number): number
}

/** A line break and the indentation behind it, also as it is written within JSON; a backslash at the end may begin one. */
const breaks = /(?:\r\n?|\n|\\r\\n|\\[rn])[ \t]{0,8}|\\$/g

/** Joins the lines of a text, as a reader of wrapped base64 does; undefined when there is only one. */
export function joinLines(text: string): Joined | undefined {
  if (!text.includes('\n') && !text.includes('\\') && !text.includes('\r')) return undefined
  const joined = text.replace(breaks, '')
  if (joined.length === text.length) return undefined
  let lines: Lines | undefined
  return {
    text: joined,
    place(index) {
      // The way back is seldom needed, and costs more than the joining.
      lines ??= linesOf(text)
      const line = lineAt(lines.joined, index)
      return (lines.starts[line] ?? 0) + index - (lines.joined[line] ?? 0)
    },
  }
}

/** Where each line begins: in the text, and in the joined text. */
interface Lines {
  readonly starts: readonly number[]
  readonly joined: readonly number[]
}

function linesOf(text: string): Lines {
  const [starts, joined] = [[0], [0]]
  let removed = 0
  for (const { index, 0: found } of text.matchAll(breaks)) {
    joined.push(index - removed)
    removed += found.length
    starts.push(index + found.length)
  }
  return { starts, joined }
}

/** The last line that begins at or before an index. */
export function lineAt(begins: readonly number[], index: number): number {
  let [low, high] = [0, begins.length - 1]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if ((begins[middle] ?? 0) <= index) low = middle
    else high = middle - 1
  }
  return low
}
