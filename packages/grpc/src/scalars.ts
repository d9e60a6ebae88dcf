import type { Json, JsonSchema } from '@gantry/contract'
import type { Scalar } from './types.ts'
import { bytesField, fixedField, utf8Text, varintField, WireError } from './wire.ts'

/** How one scalar type is encoded in the bytes, in JSON and in a schema. */
export interface ScalarForm {
  readonly schema: JsonSchema
  /** The value of an absent field without presence. */
  readonly zero: Json
  /** Whether many of them may be in one field. */
  readonly packs: 'varint' | 4 | 8 | undefined
  read(value: bigint | Buffer): Json
  /** The bytes of one value, tag included; throws TypeError or RangeError in words that follow the name of a field. */
  write(number: number, value: Json): Buffer
}

const notFinite = ['NaN', 'Infinity', '-Infinity']
const double: JsonSchema = { anyOf: [{ type: 'number' }, { enum: notFinite }] }

export const scalars: { readonly [Name in Scalar]: ScalarForm } = {
  double: floating(8),
  float: floating(4),
  int32: small(true, varintField, 'varint', (raw) => raw),
  uint32: small(false, varintField, 'varint', (raw) => raw),
  sint32: small(true, (number, value) => varintField(number, zigzag(value)), 'varint', unzigzag),
  fixed32: small(
    false,
    (number, value) => fixedField(number, bytesOf(value, 4)),
    4,
    (raw) => raw,
  ),
  sfixed32: small(
    true,
    (number, value) => fixedField(number, bytesOf(value, 4)),
    4,
    (raw) => raw,
  ),
  int64: large(true, varintField, 'varint', (raw) => raw),
  uint64: large(false, varintField, 'varint', (raw) => raw),
  sint64: large(true, (number, value) => varintField(number, zigzag(value)), 'varint', unzigzag),
  fixed64: large(
    false,
    (number, value) => fixedField(number, bytesOf(value, 8)),
    8,
    (raw) => raw,
  ),
  sfixed64: large(
    true,
    (number, value) => fixedField(number, bytesOf(value, 8)),
    8,
    (raw) => raw,
  ),
  bool: {
    schema: { type: 'boolean' },
    zero: false,
    packs: 'varint',
    read: (value) => integer(value) !== 0n,
    write: (number, value) => {
      if (typeof value !== 'boolean') throw new TypeError('must be true or false')
      return varintField(number, value ? 1 : 0)
    },
  },
  string: {
    schema: { type: 'string' },
    zero: '',
    packs: undefined,
    read: (value) => utf8Text(chunk(value)),
    write: (number, value) => bytesField(number, wellFormed(text(value))),
  },
  bytes: {
    schema: { type: 'string', contentEncoding: 'base64', description: 'Bytes, written in base64.' },
    zero: '',
    packs: undefined,
    read: (value) => chunk(value).toString('base64'),
    write: (number, value) => bytesField(number, base64(text(value))),
  },
}

type Write = (number: number, value: bigint) => Buffer

/** Integers of 32 bits are numbers in JSON. */
function small(signed: boolean, write: Write, packs: 'varint' | 4, turn: (raw: bigint) => bigint): ScalarForm {
  const [least, most] = signed ? [-(2 ** 31), 2 ** 31 - 1] : [0, 2 ** 32 - 1]
  return {
    schema: { type: 'integer', minimum: least, maximum: most },
    zero: 0,
    packs,
    read: (value) => {
      const raw = turn(integer(value))
      return Number(signed ? BigInt.asIntN(32, raw) : BigInt.asUintN(32, raw))
    },
    write: (number, value) => write(number, inRange(value, BigInt(least), BigInt(most))),
  }
}

/** Integers of 64 bits are text in JSON, because its numbers cannot hold them all. */
function large(signed: boolean, write: Write, packs: 'varint' | 8, turn: (raw: bigint) => bigint): ScalarForm {
  const [least, most] = signed ? [-(2n ** 63n), 2n ** 63n - 1n] : [0n, 2n ** 64n - 1n]
  const pattern = signed ? '^-?[0-9]{1,19}$' : '^[0-9]{1,20}$'
  return {
    schema: { type: 'string', pattern, description: 'An integer of 64 bits, written as text.' },
    zero: '0',
    packs,
    read: (value) => {
      const raw = turn(integer(value))
      return String(signed ? BigInt.asIntN(64, raw) : BigInt.asUintN(64, raw))
    },
    write: (number, value) => write(number, inRange(value, least, most)),
  }
}

function floating(size: 4 | 8): ScalarForm {
  return {
    schema: double,
    zero: 0,
    packs: size,
    read: (value) => {
      const bytes = chunk(value, size)
      const number = size === 8 ? bytes.readDoubleLE() : shortest(bytes.readFloatLE())
      return Number.isFinite(number) ? number : String(number)
    },
    write: (number, value) => {
      if (typeof value !== 'number' && !notFinite.includes(String(value))) throw new TypeError('must be a number')
      const bytes = Buffer.alloc(size)
      if (size === 8) bytes.writeDoubleLE(Number(value))
      else bytes.writeFloatLE(Number(value))
      return fixedField(number, bytes)
    },
  }
}

/** A float of 32 bits as it was meant: 0.1, not 0.10000000149011612. */
function shortest(value: number): number {
  for (let digits = 6; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits))
    if (Object.is(Math.fround(short), value)) return short
  }
  return value
}

function inRange(value: Json, least: bigint, most: bigint): bigint {
  const number = integerIn(value)
  if (number === undefined) throw new TypeError('must be an integer')
  if (number < least || number > most) throw new RangeError(`must be from ${least} to ${most}`)
  return number
}

function integerIn(value: Json): bigint | undefined {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : undefined
  return typeof value === 'string' && /^-?[0-9]{1,20}$/.test(value) ? BigInt(value) : undefined
}

function text(value: Json): string {
  if (typeof value !== 'string') throw new TypeError('must be text')
  return value
}

/** A string with half of a character pair has no UTF-8. */
function wellFormed(value: string): string {
  if (!value.isWellFormed()) throw new TypeError('must be text without half of a character pair')
  return value
}

function base64(value: string): Buffer {
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(value)) throw new TypeError('must be base64')
  return Buffer.from(value, 'base64')
}

function zigzag(value: bigint): bigint {
  return BigInt.asUintN(64, (value << 1n) ^ (value >> 63n))
}

function unzigzag(raw: bigint): bigint {
  return (raw >> 1n) ^ -(raw & 1n)
}

function bytesOf(value: bigint, size: 4 | 8): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt.asUintN(64, value))
  return bytes.subarray(0, size)
}

function integer(value: bigint | Buffer): bigint {
  if (typeof value === 'bigint') return value
  if (value.length === 4) return BigInt(value.readUInt32LE())
  if (value.length === 8) return value.readBigUInt64LE()
  throw new WireError('A number does not have the wire type of its descriptor.')
}

function chunk(value: bigint | Buffer, size?: number): Buffer {
  if (Buffer.isBuffer(value) && (size === undefined || value.length === size)) return value
  throw new WireError('A value does not have the wire type of its descriptor.')
}
