/** A part of a file in a result. */
export type Shown =
  | { readonly text: string; readonly start: number; readonly end: number }
  | { readonly base64: string; readonly start: number; readonly end: number }

/** Most bytes of the JSON text of a part, so that the result is not offloaded. */
export const mostShown = 49_152

/**
 * Bytes of a file as text when they are UTF-8, apart from characters truncated at either end, otherwise as base64.
 * `start` and `end` are the range of the result in the file.
 */
export function showBytes(bytes: Buffer, start: number, isEnd: boolean): Shown {
  const skip = start === 0 ? 0 : cutStart(bytes)
  const whole = bytes.subarray(skip, isEnd ? bytes.length : wholeEnd(bytes))
  const text = textOf(whole)
  if (text === undefined) return { base64: bytes.toString('base64'), start, end: start + bytes.length }
  if (jsonBytes(text) <= mostShown) return { text, start: start + skip, end: start + skip + whole.length }
  return showBytes(bytes.subarray(0, Math.ceil(bytes.length / 2)), start, false)
}

export function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text))
}

function textOf(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** How many bytes at the start belong to a character that starts before them. */
export function cutStart(bytes: Buffer): number {
  let count = 0
  while (count < 3 && isContinuation(bytes[count])) count++
  return count
}

/** The end of the last complete character. */
export function wholeEnd(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0
    if (isContinuation(byte)) continue
    const size = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return back < size ? bytes.length - back : bytes.length
  }
  return bytes.length
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80
}
