import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import { defaultJsonLimits } from '@gantry/core/internal/json/limits'
import { parseJson } from '@gantry/core/internal/json/parse'

const newline = 0x0a
const longestDone = 64
const doneStart = Buffer.from('{"done":')
const valueStart = /^[ \t\r]{0,8}\{[ \t]{0,8}"value"/
const longestValueStart = 32
/** What a line costs beside its text, so that a flood of short or empty ones ends as soon as one of long ones. */
const lineBytes = 16
/** What an unreadable line costs more: refusing one takes as long as reading many. */
const unreadableBytes = 240
/** A program may write this multiple of what is kept of its lines before its run is ended. */
const floodFactor = 4
/** Bytes of a program that end its run, however they are cut into lines. */
export const mostLineBytes = defaultJsonLimits.bytes * (floodFactor + 2) + 1

interface LinesOptions {
  readonly onValue: (value: Json) => void
  /** Called for a line `{"done":true,…}`, which counts even when there were too many others before it. */
  readonly onDone?: (line: JsonObject) => void
  /** A line is done only with this token. */
  readonly token?: string
  /** Lines that begin with these words are handed on as they are, without them, and count for nothing. */
  readonly own?: { readonly head: string; readonly take: (line: string) => void }
  /** The most that one line, and all lines that are read together, may have; 1 MiB when absent. */
  readonly bytes?: number
  /** Called once when all lines together, empty and unreadable ones included, are a flood; nothing is read after it. */
  readonly onFlood?: (error: ToolError) => void
}

/**
 * JSON values, one a line, out of bytes from a program: hostile in length, number and shape. The last line `{"value":…}`
 * has room of its own: when the other lines have used up theirs, it is read at the end.
 */
export interface Lines {
  push(bytes: Buffer): void
  /** Takes what is left without a newline as a line. */
  end(): void
  /** Lines that were not JSON, too long, or too many. */
  readonly dropped: number
  /** Members called `__proto__` that were left out of the values. */
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
    flooded = true
    last = undefined
    held.clear()
    onFlood?.(messageFlood(most * floodFactor))
  }
  /* What is too long is counted on, so that its end is found, but not kept. */
  const hold = (rest: Buffer): void => {
    length += rest.length
    if (length > most) {
      held.clear()
      if (charged + length > most * floodFactor) flood()
    } else if (rest.length > 0) held.push(rest)
  }
  const take = (rest: Buffer): void => {
    hold(rest)
    const line = length > most ? undefined : held.bytes()
    const size = length
    length = 0
    weigh(line, size)
    if (size > 0) held.clear()
  }
  const weigh = (line: Buffer | undefined, size: number): void => {
    if (head !== undefined && line?.subarray(0, head.length).equals(head) === true) {
      own?.take(line.toString('utf8', head.length))
      return
    }
    const isLast = line !== undefined && charged + size + lineBytes > most && isValue(line)
    if (isLast) {
      // Only one that another replaces is charged, so that a program whose lines are within their room keeps its value.
      charged += (last?.length ?? 0) + lineBytes
      last = Buffer.from(line)
    } else charged += size + lineBytes
    if (charged > most * floodFactor) flood()
    if (flooded || isLast || size === 0) return
    const mayBeDone = onDone !== undefined && looksDone(line)
    const done = mayBeDone ? doneOf(line) : undefined
    if (done !== undefined && (token === undefined || done.token === token)) {
      onDone?.(done)
      return
    }
    const isRead = charged <= most
    const value = isRead ? parse(line, keys) : undefined
    if (value !== undefined) {
      onValue(value)
      return
    }
    dropped++
    if (isRead || mayBeDone) charged += unreadableBytes
  }
  const takeLast = (): void => {
    const value = parse(last, keys)
    if (value !== undefined) onValue(value)
    else if (last !== undefined) dropped++
    last = undefined
  }
  return {
    push(bytes) {
      let from = 0
      for (let at = bytes.indexOf(newline); at >= 0 && !flooded; at = bytes.indexOf(newline, from)) {
        take(bytes.subarray(from, at))
        from = at + 1
      }
      if (!flooded) hold(bytes.subarray(from))
    },
    end() {
      if (length > 0 && !flooded) take(Buffer.alloc(0))
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

function isValue(line: Buffer): boolean {
  return valueStart.test(line.toString('latin1', 0, longestValueStart))
}

function looksDone(line: Buffer | undefined): line is Buffer {
  return line !== undefined && line.length <= longestDone && line.subarray(0, doneStart.length).equals(doneStart)
}

function doneOf(line: Buffer): JsonObject | undefined {
  const value = parse(line)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  return value.done === true ? value : undefined
}

function parse(line: Buffer | undefined, keys?: { count: number }): Json | undefined {
  if (line === undefined) return undefined
  const found = { count: 0 }
  try {
    const value = parseJson(line.toString(), defaultJsonLimits, found)
    if (keys !== undefined) keys.count += found.count
    return value
  } catch {
    return undefined
  }
}

/** Bytes that come in pieces of any size, kept as one: thousands of tiny pieces cost no more than a large one. */
export interface ByteBuffer {
  push(piece: Uint8Array): void
  readonly length: number
  /** What was pushed; valid until the next push. */
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
