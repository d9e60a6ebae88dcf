import type { Json } from '@gantry/contract'
import { fieldsOf, varintField, WireError } from './wire.ts'

const nanosPerSecond = 1_000_000_000n
const earliest = -62_135_596_800n
const latest = 253_402_300_799n
const longest = 315_576_000_000n

interface Span {
  readonly seconds: bigint
  readonly nanos: bigint
}

/** `google.protobuf.Timestamp` as `2026-01-31T12:00:00.500Z`, with as many digits as it needs. */
export function readTimestamp(bytes: Buffer): Json {
  const { seconds, nanos } = readSpan(bytes)
  if (seconds < earliest || seconds > latest || nanos < 0n) throw new WireError('A timestamp is out of range.')
  return `${new Date(Number(seconds) * 1_000).toISOString().slice(0, 19)}${fraction(nanos)}Z`
}

export function writeTimestamp(value: Json): Buffer {
  const parts = /^(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)$/.exec(String(value))
  const time = parts === null ? Number.NaN : Date.parse(`${parts[1]}${parts[3]}`)
  if (Number.isNaN(time)) throw new TypeError('must be a moment such as 2026-01-31T12:00:00Z')
  return writeSpan({ seconds: BigInt(time / 1_000), nanos: digits(parts?.[2]) })
}

/** `google.protobuf.Duration` as `1.500s`. */
export function readDuration(bytes: Buffer): Json {
  const { seconds, nanos } = readSpan(bytes)
  const all = seconds * nanosPerSecond + nanos
  const size = all < 0n ? -all : all
  if (size > longest * nanosPerSecond) throw new WireError('A duration is out of range.')
  return `${all < 0n ? '-' : ''}${size / nanosPerSecond}${fraction(size % nanosPerSecond)}s`
}

export function writeDuration(value: Json): Buffer {
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
