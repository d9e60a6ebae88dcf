const maxSegment = 200
const maxPath = 1_000
const maxMessage = 2_000

/**
 * Text of at most so many characters; a longer one loses its middle to an ellipsis. Joined from a list, because a
 * concatenation of slices would keep the whole text alive.
 */
export function abridge(text: string, most: number): string {
  if (text.length <= most) return text
  const head = Math.ceil((most - 1) / 2)
  return [text.slice(0, head), '…', text.slice(text.length - (most - 1 - head))].join('').toWellFormed()
}

/** A key in a path or a message: at most 200 characters, because keys come from hostile values and are repeated in every issue. */
export const abridgeKey = (key: string): string => abridge(key, maxSegment)

/** The path of an issue: at most 1,000 characters. One with an ellipsis is for the reader and no longer a pointer to follow. */
export const abridgePath = (path: string): string => abridge(path, maxPath)

/** The sentence of an issue: at most 2,000 characters. */
export const abridgeMessage = (message: string): string => abridge(message, maxMessage)
