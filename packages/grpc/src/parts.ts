import { fieldsOf, WireError } from './wire.ts'

/** How many fields may still be read; shared by all that is read for one purpose. */
export interface ReadBudget {
  left: number
}

/** A message read without a descriptor: its values by field number. */
export interface Parts {
  has(number: number): boolean
  /** The last text with this number, or `''`. */
  text(number: number): string
  /** The last number with this number, or 0; a signed one of 32 bits. */
  int(number: number): number
  /** Every text, sub-message or byte string with this number. */
  all(number: number): readonly Buffer[]
}

/** Reads one level of a message that this code knows by heart, such as a descriptor. */
export function readParts(bytes: Buffer, budget: ReadBudget = { left: 10_000 }): Parts {
  const values = new Map<number, (bigint | Buffer)[]>()
  for (const { number, value } of fieldsOf(bytes)) {
    budget.left -= 1
    if (budget.left < 0) throw new WireError('The message has more fields than are read.')
    const held = values.get(number)
    if (held === undefined) values.set(number, [value])
    else held.push(value)
  }
  return {
    has: (number) => values.has(number),
    text(number) {
      const value = values.get(number)?.at(-1)
      return Buffer.isBuffer(value) ? value.toString() : ''
    },
    int(number) {
      const value = values.get(number)?.at(-1)
      return typeof value === 'bigint' ? Number(BigInt.asIntN(32, value)) : 0
    },
    all: (number) => (values.get(number) ?? []).filter(Buffer.isBuffer),
  }
}
