import type { Json, JsonObject } from '@gantry/contract'
import { defaultJsonLimits } from '../../json/limits.ts'
import { parseJson } from '../../json/parse.ts'
import { createGrowing } from './launcher-growing.ts'

const newline = 0x0a
const longestDone = 64
const doneStart = Buffer.from('{"done":')
/** What a value costs beside its text, so that a flood of tiny ones ends as soon as one of long ones. */
const valueBytes = 16

export interface LinesOptions {
  readonly onValue: (value: Json) => void
  /** Called for a line `{"done":true,…}`, which counts even when there were too many others before it. */
  readonly onDone?: (line: JsonObject) => void
  /** A line is done only with this token. */
  readonly token?: string
  /** Lines that begin with these words are handed on as they are, without them, and count for nothing. */
  readonly own?: { readonly head: string; readonly take: (line: string) => void }
  /** The most that one line, and all values together, may have; 1 MiB when absent. */
  readonly bytes?: number
}

/** JSON values, one a line, out of bytes from a program: hostile in length, number and shape. */
export interface Lines {
  push(bytes: Buffer): void
  /** Takes what is left without a newline as a line. */
  end(): void
  /** Lines that were not JSON, too long, or too many. */
  readonly dropped: number
}

export function createLines({ onValue, onDone, token, own, bytes }: LinesOptions): Lines {
  const most = bytes ?? defaultJsonLimits.bytes
  const head = own === undefined ? undefined : Buffer.from(own.head)
  const held = createGrowing()
  let length = 0
  let left = most
  let dropped = 0

  /* What is too long is counted on, so that its end is found, but not kept. */
  const hold = (rest: Buffer): void => {
    length += rest.length
    if (length > most) held.clear()
    else if (rest.length > 0) held.push(rest)
  }
  const take = (rest: Buffer): void => {
    hold(rest)
    const line = length > most ? undefined : held.bytes()
    const size = length
    length = 0
    if (size > 0) weigh(line, size)
    held.clear()
  }
  const weigh = (line: Buffer | undefined, size: number): void => {
    if (head !== undefined && line?.subarray(0, head.length).equals(head) === true) {
      own?.take(line.toString('utf8', head.length))
      return
    }
    const done = onDone === undefined ? undefined : doneOf(line)
    if (done !== undefined && (token === undefined || done.token === token)) {
      onDone?.(done)
      return
    }
    left -= size + valueBytes
    const value = left < 0 ? undefined : parse(line)
    if (value === undefined) dropped++
    else onValue(value)
  }
  return {
    push(bytes) {
      let from = 0
      for (let at = bytes.indexOf(newline); at >= 0; at = bytes.indexOf(newline, from)) {
        take(bytes.subarray(from, at))
        from = at + 1
      }
      hold(bytes.subarray(from))
    },
    end() {
      if (length > 0) take(Buffer.alloc(0))
    },
    get dropped() {
      return dropped
    },
  }
}

function doneOf(line: Buffer | undefined): JsonObject | undefined {
  if (line === undefined || line.length > longestDone || line.indexOf(doneStart) !== 0) return undefined
  const value = parse(line)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  return value.done === true ? value : undefined
}

function parse(line: Buffer | undefined): Json | undefined {
  if (line === undefined) return undefined
  try {
    return parseJson(line.toString())
  } catch {
    return undefined
  }
}
