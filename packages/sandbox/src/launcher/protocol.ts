import type { LaunchFile, LaunchJob, LaunchPlan, LaunchStep } from './launcher.ts'

/**
 * The two channels of the launcher, as specified in `native/src/wire.h`: a frame is its type (1 byte), the length of its
 * payload (4 bytes) and the payload; numbers are big-endian; a text is its length, its bytes and a NUL.
 * Frames from the init are hostile, because an escaped program may write them.
 */

/** Node to supervisor. */
export const toSupervisor = { plan: 1, begin: 2, measure: 3, kill: 4, look: 5 } as const
/** Supervisor to Node. */
export const fromSupervisor = { figures: 1, end: 2, gone: 3 } as const
/** Node to init. */
export const toInit = { start: 1, file: 2, bytes: 3, go: 4, line: 5, stdin: 6, relay: 7, finish: 8 } as const
/** Init to Node. */
export const fromInit = {
  ready: 1,
  stdout: 2,
  stderr: 3,
  message: 4,
  file: 5,
  bytes: 6,
  skipped: 7,
  exit: 8,
  turn: 9,
  fault: 10,
} as const

/** Longest payload in both directions; the launcher and the reader here refuse a longer one. */
export const longestFrame = 1_048_576
/** Bytes of a file or of stdin in one frame. */
const chunkBytes = 65_536

const headBytes = 5
const nothing = Buffer.alloc(0)

/** An invalid frame: too long, too short for its content, or of an unknown type. */
export class FrameError extends Error {
  override readonly name = 'FrameError'
}

/** Builds a frame. Texts must not contain a NUL, which would truncate them on the other side. */
export class PayloadWriter {
  #bytes = Buffer.allocUnsafe(1_024)
  #length = headBytes

  u8(value: number): this {
    this.#room(1)
    this.#length = this.#bytes.writeUInt8(value, this.#length)
    return this
  }

  u32(value: number): this {
    this.#room(4)
    this.#length = this.#bytes.writeUInt32BE(value, this.#length)
    return this
  }

  u64(value: number): this {
    const high = Math.floor(value / 2 ** 32)
    return this.u32(high).u32(Math.trunc(value - high * 2 ** 32))
  }

  text(value: string): this {
    if (value.includes('\0')) throw new FrameError('A text for the launcher holds a NUL.')
    const size = Buffer.byteLength(value)
    this.u32(size)
    this.#room(size + 1)
    this.#length += this.#bytes.write(value, this.#length)
    return this.u8(0)
  }

  list<T>(members: readonly T[], write: (member: T) => void): this {
    this.u32(members.length)
    for (const member of members) write(member)
    return this
  }

  texts(values: readonly string[]): this {
    return this.list(values, (value) => this.text(value))
  }

  /** Returns the complete frame; nothing may be written after it. */
  frame(type: number): Buffer {
    frameHead(type, this.#length - headBytes).copy(this.#bytes)
    return this.#bytes.subarray(0, this.#length)
  }

  #room(size: number): void {
    if (this.#length + size <= this.#bytes.length) return
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#length + size))
    this.#bytes.copy(larger, 0, 0, this.#length)
    this.#bytes = larger
  }
}

/** The header of a frame whose payload is written separately. */
export function frameHead(type: number, length: number): Buffer {
  if (length > longestFrame) throw new FrameError(`A frame for the launcher is ${length} bytes long.`)
  const head = Buffer.allocUnsafe(headBytes)
  head.writeUInt8(type, 0)
  head.writeUInt32BE(length, 1)
  return head
}

/** Reads values from a payload; throws FrameError when it is too short or malformed. */
export class PayloadReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  u8(): number {
    return this.#take(1).readUInt8()
  }

  u32(): number {
    return this.#take(4).readUInt32BE()
  }

  /** As a number, capped at MAX_SAFE_INTEGER. */
  u64(): number {
    const value = this.#take(8).readBigUInt64BE()
    return value > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(value)
  }

  /** The bytes of a text, because a path need not be UTF-8. */
  textBytes(): Buffer {
    const length = this.u32()
    const bytes = this.#take(length + 1)
    if (bytes[length] !== 0) throw new FrameError('A text of the launcher does not end.')
    return bytes.subarray(0, length)
  }

  text(): string {
    return this.textBytes().toString()
  }

  list<T>(read: () => T): T[] {
    const count = this.u32()
    if (count > this.#bytes.length) throw new FrameError('A list of the launcher is longer than its frame.')
    return Array.from({ length: count }, read)
  }

  #take(length: number): Buffer {
    if (this.#bytes.length - this.#at < length) throw new FrameError('A frame of the launcher is too short.')
    this.#at += length
    return this.#bytes.subarray(this.#at - length, this.#at)
  }
}

/** Splits a stream into frames; the returned function takes a chunk and throws FrameError for a frame that is too long. */
export function frameReader(onFrame: (type: number, payload: Buffer) => void): (chunk: Buffer) => void {
  let held: Buffer[] = []
  let length = 0
  let wanted = headBytes

  const next = (whole: Buffer): Buffer => {
    if (whole.length < headBytes) return need(whole, headBytes)
    const size = whole.readUInt32BE(1)
    if (size > longestFrame) throw new FrameError(`A frame of the launcher is ${size} bytes long.`)
    if (whole.length < headBytes + size) return need(whole, headBytes + size)
    onFrame(whole.readUInt8(0), whole.subarray(headBytes, headBytes + size))
    return whole.subarray(headBytes + size)
  }
  const need = (rest: Buffer, bytes: number): Buffer => {
    held = rest.length === 0 ? [] : [rest]
    length = rest.length
    wanted = bytes
    return nothing
  }
  return (chunk) => {
    held.push(chunk)
    length += chunk.length
    if (length < wanted) return
    let whole = held.length === 1 ? chunk : Buffer.concat(held, length)
    need(nothing, headBytes)
    while (whole.length > 0) whole = next(whole)
  }
}

/** Bytes on descriptor 3 at which the init ends the run; below this limit Node charges line by line. */
const lineFloodBytes = 16 * 2 ** 20
/** The same limit for a program with a gateway, whose requests use descriptor 3. */
export const gatewayFloodBytes = 256 * 2 ** 20

/** The plan in the format of `native/src/plan.c`. */
export function planFrame(plan: LaunchPlan): Buffer {
  const { cgroups } = plan
  const writer = new PayloadWriter()
    .texts(plan.argv)
    .text(plan.seccompFile ?? '')
    .u8(plan.uid === undefined ? 0 : 1)
    .u32(plan.uid ?? 0)
    .u32(plan.gid ?? plan.uid ?? 0)
    .texts(cgroups.folders)
    .texts(cgroups.parents ?? [])
  writer.list(cgroups.settings, ([file, text]) => writer.text(file).text(text))
  writer.text(cgroups.killFile ?? '')
  writer.list(Object.entries(cgroups.figures), ([name, { file, key }]) => {
    writer
      .text(name)
      .text(file)
      .text(key ?? '')
  })
  writer.list(cgroups.watches, ({ limit, file, key, atLeast }) => {
    writer
      .text(limit)
      .text(file)
      .text(key ?? '')
      .u64(atLeast)
  })
  writeRlimits(writer, plan.rlimits)
  return writer
    .texts(plan.folders)
    .texts(plan.orphans ?? [])
    .u64(plan.epollWatches ?? 0)
    .frame(toSupervisor.plan)
}

export function startFrame(step: LaunchStep, keep: boolean): Buffer {
  const writer = new PayloadWriter().u8(keep ? 1 : 0)
  writeStep(writer, step)
  return writer.frame(toInit.start)
}

export function relayFrame(port: number, socket: string): Buffer {
  return new PayloadWriter().u32(port).text(socket).frame(toInit.relay)
}

/** A line for the program's descriptor 3. */
export function linePieces(line: string): Uint8Array[] {
  return chunks(toInit.line, Buffer.from(`${line}\n`))
}

/** A job as buffers to write in order, without copying its bytes. Throws FrameError when it cannot be sent. */
export function jobPieces(job: LaunchJob): Uint8Array[] {
  const files = [...(job.files ?? [])].flatMap(([path, file]) => filePieces(path, fileOf(file)))
  const line = job.line === undefined ? [] : linePieces(job.line)
  const stdin = chunks(toInit.stdin, job.stdin ?? new Uint8Array())
  return [...files, goFrame(job), ...line, ...stdin, frameHead(toInit.stdin, 0)]
}

/** Limits of what the init may send back. Unchanged files do not count, and only the host can compare them. */
export function collectRoom({ files, collect }: LaunchJob): { readonly files: number; readonly bytes: number } {
  if (collect === undefined) return { files: 0, bytes: 0 }
  const sizes = [...(files?.values() ?? [])].map((file) => fileOf(file).bytes.length)
  return { files: collect.files + sizes.length, bytes: sizes.reduce((sum, size) => sum + size, collect.bytes) }
}

export function fileOf(file: Uint8Array | LaunchFile): LaunchFile {
  return file instanceof Uint8Array ? { bytes: file } : file
}

function goFrame(job: LaunchJob): Buffer {
  const { watch } = job
  const room = collectRoom(job)
  const writer = new PayloadWriter()
  writer.list(job.steps ?? [], (step) => writeStep(writer, step))
  // One byte more than is kept shows truncation, also when the program is killed before its bytes are counted.
  writer
    .u64(job.stdoutBytes + 1)
    .u64(job.stderrBytes + 1)
    .u64(job.gateway === undefined ? lineFloodBytes : gatewayFloodBytes)
  return writer
    .u32(room.files)
    .u64(room.bytes)
    .u64(watch?.memoryBytes ?? 0)
    .u64(watch?.pids ?? 0)
    .u64(watch?.cpuMs ?? 0)
    .frame(toInit.go)
}

function writeStep(writer: PayloadWriter, step: LaunchStep): void {
  writer.texts(step.argv).texts(Object.entries(step.env).map(([name, value]) => `${name}=${value}`))
  writer.text(step.cwd ?? '')
  writeRlimits(writer, step.rlimits ?? {})
}

function writeRlimits(writer: PayloadWriter, rlimits: { readonly [name: string]: number }): void {
  writer.list(Object.entries(rlimits), ([name, value]) => writer.text(name).u64(value))
}

function filePieces(path: string, { bytes, mode = 0o644 }: LaunchFile): Uint8Array[] {
  return [new PayloadWriter().u32(mode).text(path).frame(toInit.file), ...chunks(toInit.bytes, bytes)]
}

function chunks(type: number, bytes: Uint8Array): Uint8Array[] {
  const pieces: Uint8Array[] = []
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    const chunk = bytes.subarray(at, at + chunkBytes)
    pieces.push(frameHead(type, chunk.length), chunk)
  }
  return pieces
}
