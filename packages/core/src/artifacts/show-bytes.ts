/** A part of a file as it can be shown. */
export type Shown =
  | { readonly text: string; readonly start: number; readonly end: number }
  | { readonly base64: string; readonly start: number; readonly end: number }

/** Of the JSON text of what is shown, so that it stays in a result. */
export const mostShown = 49_152

/**
 * What bytes of a file say: text when they are UTF-8, but for a character that was cut at either end, and else base64.
 * `start` and `end` are where what is shown lies in the file.
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

/** How many bytes at the beginning belong to a character that began before. */
export function cutStart(bytes: Buffer): number {
  let count = 0
  while (count < 3 && isContinuation(bytes[count])) count++
  return count
}

/** Where the last character ends that is all there. */
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
