import type { Json, JsonSchema } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { scalars } from './scalars.ts'
import type { Scalar } from './types.ts'
import { bytesField, fieldsOf, type Parts, readParts, utf8Text, varintField, WireError } from './wire.ts'

/** Reads or writes a message inside another, by the full name of its type. */
type ReadInside = (name: string, bytes: Buffer) => Json
type WriteInside = (name: string, value: Json) => Buffer

/** A message of `google.protobuf` that has a JSON form of its own. */
interface WellKnown {
  readonly schema: JsonSchema
  read(bytes: Buffer, inside: ReadInside): Json
  /** Throws TypeError or RangeError in words that follow the name of a field. */
  write(value: Json, inside: WriteInside): Buffer
}

const prefix = 'google.protobuf.'
const structName = `${prefix}Struct`
const valueName = `${prefix}Value`
const listName = `${prefix}ListValue`

const timestamp: WellKnown = {
  schema: { type: 'string', format: 'date-time', description: 'A moment, such as 2026-01-31T12:00:00.5Z.' },
  read: readTimestamp,
  write: writeTimestamp,
}
const duration: WellKnown = {
  schema: { type: 'string', pattern: '^-?[0-9]{1,12}(\\.[0-9]{1,9})?s$', description: 'Seconds, such as 1.5s.' },
  read: readDuration,
  write: writeDuration,
}
const struct: WellKnown = {
  schema: { type: 'object' },
  read: (bytes, inside) => {
    const target: { [key: string]: Json } = {}
    for (const entry of readParts(bytes, { left: 1_000_000 }).all(1)) {
      const parts = readParts(entry)
      const key = textIn(parts)
      put(
        target,
        key,
        member(key, () => inside(valueName, parts.all(2).at(-1) ?? Buffer.alloc(0))),
      )
    }
    return target
  },
  write: (value, inside) => {
    if (!isObject(value)) throw new TypeError('must be an object')
    const entries = Object.entries(value).map(([key, member]) =>
      bytesField(1, Buffer.concat([scalars.string.write(1, key), bytesField(2, inside(valueName, member))])),
    )
    return Buffer.concat(entries)
  },
}
const list: WellKnown = {
  schema: { type: 'array' },
  read: (bytes, inside) =>
    readParts(bytes, { left: 1_000_000 })
      .all(1)
      .map((item, index) => member(index, () => inside(valueName, item))),
  write: (value, inside) => {
    if (!Array.isArray(value)) throw new TypeError('must be a list')
    return Buffer.concat(value.map((item: Json) => bytesField(1, inside(valueName, item))))
  },
}
const anything: WellKnown = { schema: {}, read: readValue, write: writeValue }
const any: WellKnown = {
  schema: {
    type: 'object',
    properties: { '@type': { type: 'string', description: 'The type URL of the message whose fields these are.' } },
    required: ['@type'],
  },
  read: readAny,
  write: writeAny,
}
const fieldMask: WellKnown = {
  schema: { type: 'string', description: 'Field names separated by commas, such as user.displayName,photo.' },
  read: (bytes) =>
    readParts(bytes)
      .all(1)
      .map((path) => camel(utf8Text(path)))
      .join(','),
  write: (value) => {
    if (typeof value !== 'string') throw new TypeError('must be text')
    const paths = value.split(',').filter((path) => path !== '')
    return Buffer.concat(paths.map((path) => scalars.string.write(1, snake(path))))
  },
}

function wrapper(scalar: Scalar): WellKnown {
  const form = scalars[scalar]
  return {
    schema: form.schema,
    read: (bytes) => {
      let value = form.zero
      for (const field of fieldsOf(bytes)) if (field.number === 1) value = form.read(field.value)
      return value
    },
    write: (value) => form.write(1, value),
  }
}

/** The types whose JSON is not that of their fields, by full name. */
export const wellKnown: ReadonlyMap<string, WellKnown> = new Map<string, WellKnown>([
  [`${prefix}Timestamp`, timestamp],
  [`${prefix}Duration`, duration],
  [structName, struct],
  [valueName, anything],
  [listName, list],
  [`${prefix}Any`, any],
  [`${prefix}FieldMask`, fieldMask],
  [`${prefix}DoubleValue`, wrapper('double')],
  [`${prefix}FloatValue`, wrapper('float')],
  [`${prefix}Int64Value`, wrapper('int64')],
  [`${prefix}UInt64Value`, wrapper('uint64')],
  [`${prefix}Int32Value`, wrapper('int32')],
  [`${prefix}UInt32Value`, wrapper('uint32')],
  [`${prefix}BoolValue`, wrapper('bool')],
  [`${prefix}StringValue`, wrapper('string')],
  [`${prefix}BytesValue`, wrapper('bytes')],
])

/** The string in field 1, which is `''` when it was not sent. */
function textIn(parts: Parts): string {
  return utf8Text(parts.all(1).at(-1) ?? Buffer.alloc(0))
}

function member(key: string | number, read: () => Json): Json {
  try {
    return read()
  } catch (error) {
    throw error instanceof WireError ? error.under(key) : error
  }
}

/** Sets a member whose name came from outside. */
export function put(target: { [key: string]: Json }, key: string, value: Json): void {
  if (key !== '__proto__') target[key] = value
  else Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true })
}

function readValue(bytes: Buffer, inside: ReadInside): Json {
  let value: Json = null
  for (const field of fieldsOf(bytes)) {
    if (field.number === 1) value = null
    else if (field.number === 2) value = scalars.double.read(field.value)
    else if (field.number === 3) value = scalars.string.read(field.value)
    else if (field.number === 4) value = scalars.bool.read(field.value)
    else if (field.number === 5 && Buffer.isBuffer(field.value)) value = inside(structName, field.value)
    else if (field.number === 6 && Buffer.isBuffer(field.value)) value = inside(listName, field.value)
  }
  return value
}

function writeValue(value: Json, inside: WriteInside): Buffer {
  if (value === null) return varintField(1, 0)
  if (typeof value === 'number') return scalars.double.write(2, value)
  if (typeof value === 'string') return scalars.string.write(3, value)
  if (typeof value === 'boolean') return varintField(4, value ? 1 : 0)
  return Array.isArray(value) ? bytesField(6, inside(listName, value)) : bytesField(5, inside(structName, value))
}

/** A message of a type that the descriptors do not hold stays as its bytes, in base64. */
function readAny(bytes: Buffer, inside: ReadInside): Json {
  const parts = readParts(bytes)
  const url = textIn(parts)
  const packed = parts.all(2).at(-1) ?? Buffer.alloc(0)
  const target: { [key: string]: Json } = { '@type': url }
  if (url === '' && packed.length === 0) return {}
  const value = readPacked(typeOf(url), packed, inside)
  if (isObject(value) && !wellKnown.has(typeOf(url)))
    for (const key of Object.keys(value)) put(target, key, value[key] ?? null)
  else target.value = value
  return target
}

function readPacked(type: string, packed: Buffer, inside: ReadInside): Json {
  try {
    return inside(type, packed)
  } catch (error) {
    if (error instanceof UnknownType) return packed.toString('base64')
    throw error
  }
}

function writeAny(value: Json, inside: WriteInside): Buffer {
  if (!isObject(value) || typeof value['@type'] !== 'string') throw new TypeError('must be an object with an @type')
  const { '@type': url, ...fields } = value
  const type = typeOf(url)
  const packed = inside(type, wellKnown.has(type) ? (fields.value ?? null) : fields)
  return Buffer.concat([scalars.string.write(1, url), bytesField(2, packed)])
}

/** Thrown by what reads and writes inside, for a type that no descriptor declares. */
export class UnknownType extends WireError {
  constructor(name: string) {
    super(`No descriptor declares the type ${name.slice(0, 100)}.`)
  }
}

function typeOf(url: string): string {
  return url.slice(url.lastIndexOf('/') + 1)
}

function camel(path: string): string {
  return path.replace(/_([a-z0-9])/g, (_all, letter: string) => letter.toUpperCase())
}

function snake(path: string): string {
  return path.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

const nanosPerSecond = 1_000_000_000n
const earliest = -62_135_596_800n
const latest = 253_402_300_799n
const longest = 315_576_000_000n

interface Span {
  readonly seconds: bigint
  readonly nanos: bigint
}

/** `google.protobuf.Timestamp` as `2026-01-31T12:00:00.500Z`, with as many digits as it needs. */
function readTimestamp(bytes: Buffer): Json {
  const { seconds, nanos } = readSpan(bytes)
  if (seconds < earliest || seconds > latest || nanos < 0n) throw new WireError('A timestamp is out of range.')
  return `${new Date(Number(seconds) * 1_000).toISOString().slice(0, 19)}${fraction(nanos)}Z`
}

function writeTimestamp(value: Json): Buffer {
  const parts = /^(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)$/.exec(String(value))
  const time = parts === null ? Number.NaN : Date.parse(`${parts[1]}${parts[3]}`)
  if (Number.isNaN(time)) throw new TypeError('must be a moment such as 2026-01-31T12:00:00Z')
  return writeSpan({ seconds: BigInt(time / 1_000), nanos: digits(parts?.[2]) })
}

/** `google.protobuf.Duration` as `1.500s`. */
function readDuration(bytes: Buffer): Json {
  const { seconds, nanos } = readSpan(bytes)
  const all = seconds * nanosPerSecond + nanos
  const size = all < 0n ? -all : all
  if (size > longest * nanosPerSecond) throw new WireError('A duration is out of range.')
  return `${all < 0n ? '-' : ''}${size / nanosPerSecond}${fraction(size % nanosPerSecond)}s`
}

function writeDuration(value: Json): Buffer {
  const parts = /^(-?)(\d{1,12})(?:\.(\d{1,9}))?s$/.exec(String(value))
  if (parts === null || BigInt(parts[2] ?? 0) > longest) throw new TypeError('must be seconds such as 1.5s')
  const sign = parts[1] === '-' ? -1n : 1n
  return writeSpan({ seconds: sign * BigInt(parts[2] ?? 0), nanos: sign * digits(parts[3]) })
}

function readSpan(bytes: Buffer): Span {
  let [seconds, nanos] = [0n, 0n]
  for (const { number, value } of fieldsOf(bytes)) {
    if (typeof value !== 'bigint') continue
    if (number === 1) seconds = BigInt.asIntN(64, value)
    if (number === 2) nanos = BigInt.asIntN(32, value)
  }
  if (nanos <= -nanosPerSecond || nanos >= nanosPerSecond) throw new WireError('A time has too many nanoseconds.')
  return { seconds, nanos }
}

function writeSpan({ seconds, nanos }: Span): Buffer {
  return Buffer.concat([varintField(1, seconds), varintField(2, nanos)])
}

/** Nanoseconds as three, six or nine digits, or nothing. */
function fraction(nanos: bigint): string {
  if (nanos === 0n) return ''
  return `.${String(nanos)
    .padStart(9, '0')
    .replace(/(?:000){1,2}$/, '')}`
}

function digits(text: string | undefined): bigint {
  return BigInt((text ?? '').padEnd(9, '0'))
}
