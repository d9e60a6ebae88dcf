const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a]
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d]

/** Whether the bytes begin like a JSON object. */
export function looksLikeJsonObject(bytes: Uint8Array): boolean {
  return firstByte(bytes) === openBrace
}

/**
 * Whether one of the names is a member of the outermost object, so far as it can be told without reading the values: a
 * name somewhere in the arguments does not count. What is no JSON at all may get either answer.
 */
export function hasMember(bytes: Uint8Array, names: readonly string[]): boolean {
  if (!looksLikeJsonObject(bytes)) return false
  let depth = 0
  let atKey = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === quote) {
      const end = endOfText(bytes, at)
      if (atKey && depth === 1 && names.includes(latin1(bytes.subarray(at + 1, end)))) return true
      at = end
    } else if (byte === openBrace || byte === openBracket) {
      depth += 1
      atKey = depth === 1
    } else if (byte === closeBrace || byte === closeBracket) depth -= 1
    else if (depth === 1 && byte === comma) atKey = true
    else if (depth === 1 && byte === colon) atKey = false
  }
  return false
}

function firstByte(bytes: Uint8Array): number | undefined {
  return bytes.find((byte) => byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09)
}

/** Where the quote stands that ends the text that begins here. */
function endOfText(bytes: Uint8Array, start: number): number {
  let at = start + 1
  while (at < bytes.length && bytes[at] !== quote) at += bytes[at] === backslash ? 2 : 1
  return at
}

/** Only names of a few ASCII letters are looked for. */
function latin1(bytes: Uint8Array): string {
  return bytes.length > 64 ? '' : Buffer.from(bytes).toString('latin1')
}
