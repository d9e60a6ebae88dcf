import { Buffer } from 'node:buffer'

const { prototype: typedArray }: { prototype: Uint8Array } = Object.getPrototypeOf(Uint8Array)
const { call } = Function.prototype

function getter<T>(name: string): (view: unknown) => T {
  return call.bind(Object.getOwnPropertyDescriptor(typedArray, name)?.get as () => T)
}

const bufferOf = getter<ArrayBuffer>('buffer')
const startOf = getter<number>('byteOffset')

/** Longest payload that a host sends; the starter refuses a longer one. */
export const pieceBytes = 65_536

/**
 * Copies bytes into a program's buffer. The program may pass any object, whose own `set` would receive bytes of the host; so
 * the built-in `set` is used, which throws for anything but a typed array.
 */
export const putBytes: (into: Uint8Array, bytes: Uint8Array, offset: number) => void = call.bind(typedArray.set)

/** A view of the bytes that a program passes; throws for anything but a typed array. */
export function viewOf(given: Uint8Array, offset: number, length: number): Uint8Array {
  return new Uint8Array(bufferOf(given), startOf(given) + offset, length)
}

/** Splits bytes into pieces that fit into a frame. */
export function inPieces(bytes: Uint8Array, take: (piece: Uint8Array) => void): void {
  for (let done = 0; done < bytes.length; done += pieceBytes) take(bytes.subarray(done, done + pieceBytes))
}

/** Frames between a Python host and its starter: a byte for the kind, four for the length, then the payload. */
export const toHost = { job: 1, report: 2 } as const
export const fromHost = {
  /** The host waits for its job; the payload is the CPU time of its start, in milliseconds, as text. */
  ready: 1,
  stdout: 2,
  stderr: 3,
  channel: 4,
  /** The program has ended; the payload is its exit code as text. */
  end: 5,
  /** A collected file: JSON of its path and its size; its bytes follow as `content`. */
  file: 6,
  /** A skipped file: JSON of its path and the reason. */
  skipped: 7,
  /** The answer to `report`, after the files: JSON of HostReport. */
  report: 8,
  /** A piece of an interpreter's memory snapshot; `end` follows the last. */
  snapshot: 9,
  /** A piece of the last named file. */
  content: 10,
} as const

/** The program stream of a frame kind. */
export function streamOf(kind: number): 'stdout' | 'stderr' | 'channel' | undefined {
  if (kind === fromHost.stdout) return 'stdout'
  if (kind === fromHost.stderr) return 'stderr'
  return kind === fromHost.channel ? 'channel' : undefined
}

export const headBytes = 5

/** The job of a host; the bytes of stdin and of the files follow, in this order. */
export interface HostJob {
  /** The job for the driver, as it reads it. */
  readonly line: string
  readonly session: boolean
  readonly memoryBytes: number
  readonly diskBytes: number
  readonly deterministic?: { readonly seed: number; readonly nowMs: number }
  readonly stdinBytes: number
  readonly files: readonly (readonly [path: string, bytes: number])[]
}

/** Request for files and figures when a program, or one run of a session, has ended. */
export interface ReportRequest {
  readonly files: number
  readonly bytes: number
}

export interface HostReport {
  readonly cpuMs: number
  readonly memoryBytes: number
  /** Whether memory, or space for files, was refused to the program. */
  readonly refusedMemory: boolean
  readonly refusedDisk: boolean
}

export function encodeFrame(kind: number, ...parts: readonly Uint8Array[]): Buffer {
  const head = Buffer.alloc(headBytes)
  head.writeUInt8(kind, 0)
  head.writeUInt32LE(
    parts.reduce((sum, { length }) => sum + length, 0),
    1,
  )
  return Buffer.concat([head, ...parts])
}

/** A value and its bytes as one payload. */
export function encodeWithBytes(value: unknown, ...parts: readonly Uint8Array[]): Uint8Array[] {
  const text = Buffer.from(JSON.stringify(value))
  const length = Buffer.alloc(4)
  length.writeUInt32LE(text.length)
  return [length, text, ...parts]
}

export function decodeWithBytes<T>(payload: Buffer): { readonly value: T; readonly bytes: Buffer } {
  const length = payload.readUInt32LE(0)
  const value: T = JSON.parse(payload.subarray(4, 4 + length).toString())
  return { value, bytes: payload.subarray(4 + length) }
}

/** Joins chunks into frames; throws for one that is longer than `longest`. */
export function createFrameReader(longest: number, take: (kind: number, payload: Buffer) => void) {
  let held: Buffer[] = []
  let heldBytes = 0
  const read = (): void => {
    while (heldBytes >= headBytes) {
      const all = held.length === 1 ? held[0] : undefined
      const whole = all ?? Buffer.concat(held)
      const length = whole.readUInt32LE(1)
      if (length > longest) throw new RangeError('Protocol error: a frame exceeds the size limit.')
      held = [whole]
      if (heldBytes < headBytes + length) return
      const payload = whole.subarray(headBytes, headBytes + length)
      held = [whole.subarray(headBytes + length)]
      heldBytes -= headBytes + length
      take(whole.readUInt8(0), payload)
    }
  }
  let wanted = headBytes
  return (piece: Buffer): void => {
    held.push(piece)
    heldBytes += piece.length
    if (heldBytes < wanted) return
    read()
    const [first] = held
    wanted = first !== undefined && first.length >= headBytes ? headBytes + first.readUInt32LE(1) : headBytes
  }
}
