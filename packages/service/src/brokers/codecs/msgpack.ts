import type { Json, JsonObject } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { JsonError } from '@gantry/core/internal/json/plain'
import { Encoder } from '@msgpack/msgpack'
import { defaultMessageLimits, type MessageLimits } from './codec.ts'

interface Reader {
  readonly bytes: Buffer
  at: number
  nodes: number
  readonly limits: MessageLimits
  readonly path: (string | number)[]
  readonly outermost: JsonObject
  readonly binary: BinaryMembers | undefined
}

/** Allows binary data below this member of the outermost map. It becomes base64 text. */
export interface BinaryMembers {
  readonly below: string
  /** Receives the JSON pointer of each value, from below the member, for the check against the schema. */
  readonly found: string[]
}

/** Far deeper than any result; it only keeps a mistake of our own from overflowing the stack. */
const deepestReply = 500
const shortText = 24
/** The check of each binary value against the schema takes time. */
const mostBinary = 100
/** Shared: each encoder has its own buffer, which costs more than a reply. */
const encoder = new Encoder({ maxDepth: deepestReply })
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Decodes the subset of MessagePack that is JSON, under the rules of `parseJson`: no repeated keys, no `__proto__`, no
 * invalid UTF-8, no bytes after the end; an integer that a double cannot hold exactly becomes its digits as text.
 * Extension types, including timestamps, are refused, and so is binary data except where `binary` allows it. A declared
 * length is compared with the bytes that follow before anything is allocated for it.
 * | The decoder of the library does none of this, and a check of all bytes before it costs as much as decoding them
 * here.
 * - Errors: JsonError with the path. The members of the outermost map before the fault are in `outermost`, so that the
 *   sender can be answered.
 */
export function decodeMsgpack(
  bytes: Uint8Array,
  limits: MessageLimits = defaultMessageLimits,
  outermost: JsonObject = {},
  binary?: BinaryMembers,
): Json {
  if (bytes.length > limits.bytes) throw new JsonError('too-large', '', `is longer than ${limits.bytes} bytes`)
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const reader: Reader = { bytes: buffer, at: 0, nodes: limits.nodes, limits, path: [], outermost, binary }
  const value = readValue(reader)
  const rest = bytes.length - reader.at
  if (rest > 0) throw fault(reader, 'not-json', `is followed by ${rest} more bytes`)
  return value
}

/** Encodes MessagePack as Python's `packb` does; a lone surrogate, which no reader accepts, becomes U+FFFD. */
export function encodeMsgpack(value: unknown): Uint8Array {
  return encoder.encode(isWellFormed(value) ? value : wellFormed(value))
}

/** Nearly every value is well-formed; then nothing is copied. */
function isWellFormed(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed()
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return true
  if (Array.isArray(value)) return value.every(isWellFormed)
  if (!isObject(value)) return true
  for (const key in value) {
    if (!key.isWellFormed() || !isWellFormed(value[key])) return false
  }
  return true
}

function wellFormed(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed()
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value
  if (Array.isArray(value)) return value.map(wellFormed)
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key.toWellFormed(), wellFormed(member)]))
}

function readValue(reader: Reader): Json {
  const head = reader.bytes[take(reader, 1)] ?? 0xc1
  if (head < 0x80) return head
  if (head < 0x90) return readMap(reader, head & 0x0f)
  if (head < 0xa0) return readArray(reader, head & 0x0f)
  if (head < 0xc0) return readText(reader, head & 0x1f)
  if (head >= 0xe0) return head - 0x100
  if (head === 0xc0) return null
  if (head === 0xc2 || head === 0xc3) return head === 0xc3
  if (head === 0xca) return finite(reader, reader.bytes.readFloatBE(take(reader, 4)))
  if (head === 0xcb) return finite(reader, reader.bytes.readDoubleBE(take(reader, 8)))
  if (head === 0xcf) return integerValue(reader.bytes.readBigUInt64BE(take(reader, 8)))
  if (head === 0xd3) return integerValue(reader.bytes.readBigInt64BE(take(reader, 8)))
  if (head >= 0xcc && head <= 0xce) return readLength(reader, 1 << (head - 0xcc))
  if (head >= 0xd0 && head <= 0xd2) return readSigned(reader, 1 << (head - 0xd0))
  if (head >= 0xd9 && head <= 0xdb) return readText(reader, readLength(reader, 1 << (head - 0xd9)))
  if (head === 0xdc || head === 0xdd) return readArray(reader, readLength(reader, head === 0xdc ? 2 : 4))
  if (head === 0xde || head === 0xdf) return readMap(reader, readLength(reader, head === 0xde ? 2 : 4))
  if (head >= 0xc4 && head <= 0xc6) return readBinary(reader, readLength(reader, 1 << (head - 0xc4)))
  throw fault(reader, 'not-json', 'has an extension type, which is not supported')
}

function readMap(reader: Reader, size: number): JsonObject {
  enter(reader, size, 2)
  const target: JsonObject = reader.path.length === 0 ? reader.outermost : {}
  for (let index = 0; index < size; index++) {
    const key = readKey(reader)
    reader.path.push(key)
    if (key === '__proto__') throw fault(reader, 'forbidden-key', 'is a key that is not allowed')
    if (Object.hasOwn(target, key)) throw fault(reader, 'not-json', 'is a repeated key')
    target[key] = readValue(reader)
    reader.path.pop()
  }
  return target
}

function readKey(reader: Reader): string {
  const key = isTextHead(reader.bytes[reader.at]) ? readValue(reader) : undefined
  if (typeof key !== 'string') throw fault(reader, 'not-json', 'has a key that is not a text')
  return key
}

function isTextHead(head: number | undefined): boolean {
  return head !== undefined && ((head >= 0xa0 && head < 0xc0) || (head >= 0xd9 && head <= 0xdb))
}

function readArray(reader: Reader, size: number): Json[] {
  enter(reader, size, 1)
  const target: Json[] = []
  for (let index = 0; index < size; index++) {
    reader.path.push(index)
    target.push(readValue(reader))
    reader.path.pop()
  }
  return target
}

/** Enters a list or a map: checks its depth and its size, each member of which takes at least a byte. */
function enter(reader: Reader, size: number, bytesEach: number): void {
  const { limits, path } = reader
  if (path.length >= limits.depth) throw fault(reader, 'too-deep', `is nested deeper than ${limits.depth} levels`)
  const rest = reader.bytes.length - reader.at
  if (size * bytesEach > rest) throw fault(reader, 'not-json', `declares ${size} members, but ${rest} bytes follow`)
  reader.nodes -= size
  if (reader.nodes < 0) throw fault(reader, 'too-large', `has more than ${limits.nodes} members`)
}

function readText(reader: Reader, length: number): string {
  const most = reader.limits.stringBytes
  if (length > most) throw fault(reader, 'too-large', `holds a text of more than ${most} bytes`)
  const start = take(reader, length)
  const short = length <= shortText ? asciiText(reader.bytes, start, start + length) : undefined
  if (short !== undefined) return short
  const text = reader.bytes.toString('utf8', start, start + length)
  // The decoder replaces invalid UTF-8 by this character, which may also be in the text itself.
  if (text.includes('\ufffd') && !isUtf8(reader.bytes.subarray(start, start + length))) {
    throw fault(reader, 'not-json', 'holds a text that is not UTF-8')
  }
  return text
}

/** Binary data as base64 text; its path is kept for the check against the schema. */
function readBinary(reader: Reader, length: number): string {
  const { binary, path, limits } = reader
  if (binary === undefined || path.length < 2 || path[0] !== binary.below) {
    throw fault(reader, 'not-json', 'is binary data, which is not allowed here')
  }
  if (length > limits.stringBytes) throw fault(reader, 'too-large', `holds more than ${limits.stringBytes} bytes`)
  const start = take(reader, length)
  if (binary.found.length >= mostBinary) {
    throw fault(reader, 'too-large', `is binary data, of which there are more than ${mostBinary}`)
  }
  binary.found.push(pointerOf(path.slice(1)))
  return reader.bytes.toString('base64', start, start + length)
}

/** Most texts are short names, for which a native decoder costs more than this loop. */
function asciiText(bytes: Uint8Array, start: number, end: number): string | undefined {
  let text = ''
  for (let at = start; at < end; at++) {
    const byte = bytes[at] ?? 0x80
    if (byte >= 0x80) return undefined
    text += String.fromCharCode(byte)
  }
  return text
}

function isUtf8(bytes: Uint8Array): boolean {
  try {
    strictUtf8.decode(bytes)
    return true
  } catch {
    return false
  }
}

function readLength(reader: Reader, bytes: number): number {
  return reader.bytes.readUIntBE(take(reader, bytes), bytes)
}

function readSigned(reader: Reader, bytes: number): number {
  return reader.bytes.readIntBE(take(reader, bytes), bytes)
}

/**
 * 64-bit ids are common in languages with unbounded integers; as text they keep their digits, and a schema can refuse
 * them.
 */
function integerValue(value: bigint): number | string {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : String(value)
}

function finite(reader: Reader, value: number): number {
  if (Number.isFinite(value)) return value
  throw fault(reader, 'not-json', `is ${value}, which JSON cannot hold`)
}

/** The start of the next bytes, and advances behind them. */
function take(reader: Reader, bytes: number): number {
  const start = reader.at
  if (start + bytes > reader.bytes.length) throw fault(reader, 'not-json', 'breaks off')
  reader.at += bytes
  return start
}

function fault({ path }: Reader, kind: JsonError['fault'], message: string): JsonError {
  return new JsonError(kind, pointerOf(path), message)
}

function pointerOf(path: readonly (string | number)[]): string {
  return path.map((key) => `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}
