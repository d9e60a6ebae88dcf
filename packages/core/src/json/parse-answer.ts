import type { Json } from '@gantry/contract'

/** Enough digits to be more than a double holds. */
const manyDigits = /[0-9]{16}/

/**
 * JSON as a service wrote it: quick and as lenient as `JSON.parse`, because its caller did not write it and cannot mend
 * it, but no digit is lost: a whole number that a double cannot hold is given as its text.
 * Throws SyntaxError, or RangeError for nesting beyond the stack. What comes out still passes `copyJson`.
 */
export function parseAnswer(text: string): Json {
  return (manyDigits.test(text) ? JSON.parse(text, keepDigits as Reviver) : JSON.parse(text)) as Json
}

type Reviver = (key: string, value: unknown) => unknown

function keepDigits(_key: string, value: unknown, { source }: { readonly source?: string }): unknown {
  if (typeof value !== 'number' || Number.isSafeInteger(value) || source === undefined) return value
  return /^-?[0-9]+$/.test(source) ? source : value
}
