import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import { parseJson } from '@gantry/core/internal/json/parse'
import { defaultJsonLimits } from '@gantry/core/internal/json/plain'

const newline = 0x0a
const longestDone = 64
const doneStart = Buffer.from('{"done":')
const valueName = Buffer.from('"value"')
const brace = 0x7b
const blanks: ReadonlySet<number | undefined> = new Set([0x20, 0x09, 0x0d])
/** Most blanks before the brace of a value, and between it and the name. */
const mostBlanks = 8
/** A line end this near is found faster byte by byte than by a search. */
const nearBytes = 16
/** Overhead charged for each line, so that a flood of short or empty lines ends as soon as one of long lines. */
const lineBytes = 16
/** Additional charge for an invalid line, because refusing one takes as long as reading many. */
const unreadableBytes = 240
/** A program may write this multiple of the kept bytes before its run is ended. */
const floodFactor = 4
/** Bytes that end a run, for every split into lines. */
export const mostLineBytes = defaultJsonLimits.bytes * (floodFactor + 2) + 1

interface LinesOptions {
  readonly onValue: (value: Json) => void
  /** Called for a line `{"done":true,…}`, also when the other lines are above their limit. */
  readonly onDone?: (line: JsonObject) => void
  /** Only a done line with this token counts. */
  readonly token?: string
  /** Lines with this prefix are passed to `take` without it, and are not charged. */
  readonly own?: { readonly head: string; readonly take: (line: string) => void }
  /** Byte limit of one line and of all lines together; 1 MiB when absent. */
  readonly bytes?: number
  /** Called once when all lines together, including empty and invalid ones, are a flood; nothing is read after it. */
  readonly onFlood?: (error: ToolError) => void
}

/**
 * Parses JSON lines from a hostile program, which may send any length, number and shape. The last line `{"value":…}`
 * has its own byte limit: when the other lines have used up theirs, it is parsed at the end.
 */
export interface Lines {
  push(bytes: Buffer): void
  /** Treats a remainder without a newline as a line. */
  end(): void
  /** Lines that were not JSON, too long, or too many. */
  readonly dropped: number
  /** Members named `__proto__` that were left out of the values. */
  readonly droppedKeys: number
}

export function createLines({ onValue, onDone, token, own, bytes, onFlood }: LinesOptions): Lines {
  const most = bytes ?? defaultJsonLimits.bytes
  const head = own === undefined ? undefined : Buffer.from(own.head)
  const held = createByteBuffer()
  let length = 0
  let charged = 0
  let last: Buffer | undefined
  let dropped = 0
  const keys = { count: 0 }
  let flooded = false

  const flood = (): void => {
    if (flooded) return
    flooded = true
    last = undefined
    held.clear()
    onFlood?.(messageFlood(most * floodFactor))
  }
  // A line above the limit is counted until its end but not buffered.
  const hold = (rest: Buffer): void => {
    length += rest.length
    if (length > most) {
      held.clear()
      if (charged + length > most * floodFactor) flood()
    } else if (rest.length > 0) held.push(rest)
  }
  // A flood of short lines must cost little, so nothing is copied or allocated for a line that is whole and not read.
  const take = (bytes: Buffer, from: number, to: number): void => {
    if (length === 0 && to - from <= most) {
      weigh(bytes, from, to, to - from)
      return
    }
    hold(bytes.subarray(from, to))
    const size = length
    length = 0
    weigh(size > most ? undefined : held.bytes(), 0, size, size)
    held.clear()
  }
  /** Undefined bytes: the line was too long to be buffered. */
  const weigh = (bytes: Buffer | undefined, from: number, to: number, size: number): void => {
    if (head !== undefined && bytes !== undefined && startsWith(bytes, from, to, head)) {
      own?.take(bytes.toString('utf8', from + head.length, to))
      return
    }
    const isLast = bytes !== undefined && charged + size + lineBytes > most && isValue(bytes, from, to)
    if (isLast) {
      // Only a replaced value is charged, so that a program whose other lines are within the limit keeps its value.
      charged += (last?.length ?? 0) + lineBytes
      last = Buffer.from(bytes.subarray(from, to))
    } else charged += size + lineBytes
    if (charged > most * floodFactor) flood()
    if (flooded || isLast || size === 0) return
    const mayBeDone = onDone !== undefined && bytes !== undefined && looksDone(bytes, from, to)
    const done = mayBeDone ? doneOf(bytes.toString('utf8', from, to)) : undefined
    if (done !== undefined && (token === undefined || done.token === token)) {
      onDone?.(done)
      return
    }
    const isRead = charged <= most
    const value = isRead ? parse(bytes?.toString('utf8', from, to), keys) : undefined
    if (value !== undefined) {
      onValue(value)
      return
    }
    dropped++
    if (isRead || mayBeDone) charged += unreadableBytes
  }
  const takeLast = (): void => {
    const value = parse(last?.toString(), keys)
    if (value !== undefined) onValue(value)
    else if (last !== undefined) dropped++
    last = undefined
  }
  return {
    push(bytes) {
      let from = 0
      for (let at = lineEnd(bytes, 0); at >= 0 && !flooded; at = lineEnd(bytes, from)) {
        take(bytes, from, at)
        from = at + 1
      }
      if (!flooded) hold(bytes.subarray(from))
    },
    end() {
      if (length > 0 && !flooded) take(Buffer.alloc(0), 0, 0)
      takeLast()
    },
    get dropped() {
      return dropped
    },
    get droppedKeys() {
      return keys.count
    },
  }
}

function messageFlood(most: number): ToolError {
  const message = `The program was ended, because it wrote more than ${most} bytes on descriptor 3, each line counted with ${lineBytes} more and one that is no JSON with ${lineBytes + unreadableBytes} more.`
  return new ToolError('LIMIT_EXCEEDED', message, { details: { limit: 'messageBytes' } })
}

/** The position of the next newline, or -1. */
function lineEnd(bytes: Buffer, from: number): number {
  const near = Math.min(bytes.length, from + nearBytes)
  for (let at = from; at < near; at++) if (bytes[at] === newline) return at
  return bytes.indexOf(newline, near)
}

function startsWith(bytes: Buffer, from: number, to: number, start: Buffer): boolean {
  if (to - from < start.length) return false
  for (let n = 0; n < start.length; n++) if (bytes[from + n] !== start[n]) return false
  return true
}

function isValue(bytes: Buffer, from: number, to: number): boolean {
  const open = afterBlanks(bytes, from, to)
  return bytes[open] === brace && startsWith(bytes, afterBlanks(bytes, open + 1, to), to, valueName)
}

function afterBlanks(bytes: Buffer, from: number, to: number): number {
  const most = Math.min(to, from + mostBlanks)
  let at = from
  while (at < most && blanks.has(bytes[at])) at++
  return at
}

function looksDone(bytes: Buffer, from: number, to: number): boolean {
  return to - from <= longestDone && startsWith(bytes, from, to, doneStart)
}

function doneOf(line: string): JsonObject | undefined {
  const value = parse(line)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  return value.done === true ? value : undefined
}

function parse(line: string | undefined, keys?: { count: number }): Json | undefined {
  if (line === undefined) return undefined
  const found = { count: 0 }
  try {
    const value = parseJson(line, defaultJsonLimits, found)
    if (keys !== undefined) keys.count += found.count
    return value
  } catch {
    return undefined
  }
}

/** Buffers chunks of any size as one; thousands of tiny chunks cost no more than a large one. */
export interface ByteBuffer {
  push(piece: Uint8Array): void
  readonly length: number
  /** The buffered bytes; valid until the next push. */
  bytes(): Buffer
  clear(): void
}

export function createByteBuffer(): ByteBuffer {
  let room = Buffer.alloc(0)
  let length = 0
  return {
    push(piece) {
      if (length + piece.length > room.length) {
        const larger = Buffer.allocUnsafe(Math.max(256, room.length * 2, length + piece.length))
        room.copy(larger, 0, 0, length)
        room = larger
      }
      room.set(piece, length)
      length += piece.length
    },
    get length() {
      return length
    },
    bytes: () => room.subarray(0, length),
    clear() {
      room = Buffer.alloc(0)
      length = 0
    },
  }
}
