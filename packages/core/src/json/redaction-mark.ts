/** What stands in the place of a hidden text. A text is hidden because its value is a known secret, or by its shape. */
export type RedactionMark = (hidden: string, by: 'value' | 'shape') => string

/** Digits in hex: a mark must not be met by another text by accident, nor by trying. */
const digits = 32

/**
 * Marks that say how long the hidden text is, in bytes of UTF-8, and give its digest, so that two hidden texts can be
 * compared and one can be recognised later. The digest is keyed, because a plain hash of a password can be tried out by
 * all who see it; and what is hidden by value has other digests than what is hidden by shape, because a caller can choose
 * the latter and would learn by comparing whether it guessed a secret. Without a key, each set of marks has a random one.
 */
export function createRedactionMark(key?: string): RedactionMark {
  let used = key
  return (hidden, by) => {
    const { createHmac, randomBytes } = process.getBuiltinModule('node:crypto')
    used ??= randomBytes(32).toString('base64')
    const digest = createHmac('sha256', used).update(`${by}\0`).update(hidden).digest('hex').slice(0, digits)
    return `[redacted ${Buffer.byteLength(hidden)} bytes hmac-sha256:${digest}]`
  }
}
