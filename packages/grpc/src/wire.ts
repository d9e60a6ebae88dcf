import { isUtf8 } from 'node:buffer'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'

/** Thrown for bytes that are not a protobuf message, or not of the type of its descriptor. */
export class WireError extends Error {
  override readonly name = 'WireError'
  /** JSON Pointer to the field in the JSON form of the message; empty when the fault has no field. */
  path = ''

  /** The same error, of a member with this key. */
  under(key: string | number): this {
    this.path = `/${escapeSegment(String(key))}${this.path}`
    return this
  }
}

/** The text of a `string` field, which protobuf requires to be UTF-8. */
export function utf8Text(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw new WireError('A string is not valid UTF-8.')
  return bytes.toString()
}

/** One field as it is encoded: a varint as an unsigned number, anything else as its bytes. */
interface WireField {
  readonly number: number
  readonly value: bigint | Buffer
}

const deepestGroup = 32

/** The fields of a message in their order; a group, which nothing here understands, is passed over. */
export function* fieldsOf(bytes: Buffer): Generator<WireField> {
  const cursor = new Cursor(bytes)
  while (!cursor.done) {
    const tag = cursor.varint()
    const number = Number(tag >> 3n)
    if (number === 0) throw new WireError('A field has the number 0.')
    const value = cursor.value(Number(tag & 7n), 0)
    if (value !== undefined) yield { number, value }
  }
}

/** The varints of a packed field. */
export function* varintsOf(bytes: Buffer): Generator<bigint> {
  const cursor = new Cursor(bytes)
  while (!cursor.done) yield cursor.varint()
}

class Cursor {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get done(): boolean {
    return this.#at >= this.#bytes.length
  }

  varint(): bigint {
    let low = 0
    for (let shift = 0; shift < 28; shift += 7) {
      const byte = this.#next()
      low |= (byte & 0x7f) << shift
      if (byte < 0x80) return BigInt(low)
    }
    let value = BigInt(low)
    for (let shift = 28n; shift < 70n; shift += 7n) {
      const byte = this.#next()
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return BigInt.asUintN(64, value)
    }
    throw new WireError('A number is longer than ten bytes.')
  }

  value(wire: number, depth: number): bigint | Buffer | undefined {
    if (wire === 0) return this.varint()
    if (wire === 1) return this.#take(8)
    if (wire === 2) return this.#take(Number(this.varint()))
    if (wire === 5) return this.#take(4)
    if (wire !== 3 || depth >= deepestGroup) throw new WireError(`A field has the wire type ${wire}.`)
    for (let tag = this.varint(); (tag & 7n) !== 4n; tag = this.varint()) this.value(Number(tag & 7n), depth + 1)
    return undefined
  }

  #take(length: number): Buffer {
    const end = this.#at + length
    if (end > this.#bytes.length) throw new WireError('The message ends inside a field.')
    const taken = this.#bytes.subarray(this.#at, end)
    this.#at = end
    return taken
  }

  #next(): number {
    const byte = this.#bytes[this.#at]
    if (byte === undefined) throw new WireError('The message ends inside a number.')
    this.#at += 1
    return byte
  }
}

/** A varint; a negative number takes ten bytes, as protobuf wants it. */
function varint(value: bigint | number): Buffer {
  const bytes: number[] = []
  let rest = BigInt.asUintN(64, BigInt(value))
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80)
  bytes.push(Number(rest))
  return Buffer.from(bytes)
}

/** A field whose value is a number. */
export function varintField(number: number, value: bigint | number): Buffer {
  return Buffer.concat([varint(number * 8), varint(value)])
}

/** A field whose value is text, bytes or a message. */
export function bytesField(number: number, value: Uint8Array | string): Buffer {
  const bytes = typeof value === 'string' ? Buffer.from(value) : value
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes])
}

/** A field of four or eight bytes. */
export function fixedField(number: number, value: Buffer): Buffer {
  return Buffer.concat([varint(number * 8 + (value.length === 8 ? 1 : 5)), value])
}

/** How many fields may still be read; shared by all that is read for one purpose. */
export interface ReadBudget {
  left: number
}

/** A message read without a descriptor: its values by field number. */
export interface Parts {
  has(number: number): boolean
  /** The last text with this number, or `''`; what is not UTF-8 in it is replaced, as descriptors are not verified. */
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
