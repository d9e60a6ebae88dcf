import { constants } from 'node:os'
import { getSystemErrorName } from 'node:util'
import type { Json, SandboxLimit } from '@gantry/contract'
import type { Captured } from '@gantry/core/internal/runtimes/runtime'
import { checkPath } from '../languages/file-path.ts'
import type { LaunchJob, RunEnd, RunOptions } from './launcher.ts'
import { type ByteBuffer, createByteBuffer, createLines } from './message-lines.ts'
import { collectRoom, FrameError, fileOf, fromInit, gatewayFloodBytes, PayloadReader } from './protocol.ts'

/** In the order of `enum hit` in native/src/init.c. */
const initHits: readonly (SandboxLimit | undefined)[] = [
  undefined,
  'stdoutBytes',
  'stderrBytes',
  'memoryBytes',
  'pids',
  'cpuMs',
]
/** A stream must end at this multiple of its limit; an init that sends more is treated as compromised. */
const floodFactor = 9
const floodBytes = 32 * 2 ** 20
/** Flood limit of descriptor 3, above the limit at which the init itself ends the run. */
const messageFlood = { plain: floodBytes, gateway: gatewayFloodBytes + floodBytes }

/** The end of a run as the init reports it. */
type InitEnd =
  | ({ readonly kind: 'exit' | 'turn' } & Pick<RunEnd, 'exit' | 'step' | 'free' | 'rusage'> & InitHit)
  | { readonly kind: 'unwritten'; readonly path: string; readonly code: string }

interface InitHit {
  readonly hit: SandboxLimit | undefined
}

/** Collects the frames of one run. */
export interface RunIntake {
  /** Throws FrameError for a frame that a correct init does not send. */
  take(type: number, payload: Buffer): void
  /** Set when the init has reported the end of the run. */
  readonly end: InitEnd | undefined
  /** Everything received so far. */
  received(): Pick<RunEnd, 'stdout' | 'stderr' | 'messages' | 'messagesDropped' | 'keysDropped' | 'files' | 'skipped'>
}

/** `onDone` is called with the exit code when an interpreter reports the end of its turn, or, with the job's token, of its program. */
export function createRunIntake(
  job: LaunchJob,
  options: RunOptions,
  onDone?: (code: number) => void,
  send: (line: string) => number = () => 0,
): RunIntake {
  const stdout = createCapture(job.stdoutBytes, (bytes) => options.onOutput?.('stdout', bytes))
  const stderr = createCapture(job.stderrBytes, (bytes) => options.onOutput?.('stderr', bytes))
  const collected = createCollected(job)
  const messages: Json[] = []
  let done = false
  let doneCode = 0
  let end: InitEnd | undefined
  const lines = createLines({
    onValue: (value) => {
      messages.push(value)
      options.onMessage?.(value)
    },
    ...(options.onFlood === undefined ? {} : { onFlood: options.onFlood }),
    ...(job.token === undefined ? {} : { token: job.token }),
    ...(job.gateway === undefined
      ? {}
      : { own: { head: `${job.gateway} `, take: (line: string) => options.onGateway?.(line, send) } }),
    ...(onDone === undefined
      ? {}
      : {
          onDone: ({ code }) => {
            if (done) return
            done = true
            if (typeof code === 'number' && Number.isInteger(code) && code >= 0 && code < 256) doneCode = code
            onDone(doneCode)
          },
        }),
  })
  let messageBytes = 0

  const takeMessage = (payload: Buffer): void => {
    messageBytes += payload.length
    const most = job.gateway === undefined ? messageFlood.plain : messageFlood.gateway
    if (messageBytes > most) throw new FrameError('The init sent more messages than it may.')
    lines.push(payload)
  }
  const takeEnd = (kind: 'exit' | 'turn', payload: Buffer): void => {
    lines.end()
    const reader = new PayloadReader(payload)
    const signalled = reader.u8() === 1
    const value = reader.u32()
    const step = reader.u32()
    const hit = initHits[reader.u8()]
    stdout.total(reader.u64())
    stderr.total(reader.u64())
    const free = { bytes: reader.u64(), files: reader.u64() }
    const rusage = { userMs: reader.u64() / 1000, systemMs: reader.u64() / 1000, maxRssBytes: reader.u64() }
    const exit = signalled ? { signal: signalName(value) } : { code: kind === 'turn' ? doneCode : value }
    end = { kind, exit, step, hit, free, rusage }
  }
  const takeFault = (payload: Buffer): void => {
    const reader = new PayloadReader(payload)
    const code = errorName(reader.u32())
    const path = reader.text()
    if (job.files?.has(path) !== true) throw new FrameError(`The init failed: ${plain(path)}: ${code}.`)
    end = { kind: 'unwritten', path, code }
  }
  return {
    take(type, payload) {
      if (end !== undefined) throw new FrameError('The init sent a frame after the end of the run.')
      if (type === fromInit.stdout) stdout.push(payload)
      else if (type === fromInit.stderr) stderr.push(payload)
      else if (type === fromInit.message) takeMessage(payload)
      else if (type === fromInit.file) collected.file(new PayloadReader(payload).textBytes())
      else if (type === fromInit.bytes) collected.bytes(payload)
      else if (type === fromInit.skipped) takeSkipped(new PayloadReader(payload))
      else if (type === fromInit.exit) takeEnd('exit', payload)
      else if (type === fromInit.turn && onDone !== undefined && job.token === undefined) takeEnd('turn', payload)
      else if (type === fromInit.fault) takeFault(payload)
      else throw new FrameError(`The init sent a frame of the unknown type ${type}.`)
    },
    get end() {
      return end
    },
    received: () => ({
      stdout: stdout.captured(),
      stderr: stderr.captured(),
      messages,
      messagesDropped: lines.dropped,
      keysDropped: lines.droppedKeys,
      ...collected.result(),
    }),
  }

  function takeSkipped(reader: PayloadReader): void {
    collected.skip(reader.textBytes(), reader.text())
  }
}

interface Capture {
  push(bytes: Buffer): void
  /** Sets the byte count of the init, which is higher than the bytes sent when the stream was truncated. */
  total(bytes: number): void
  captured(): Captured
}

function createCapture(cap: number, onBytes: (bytes: Buffer) => void): Capture {
  const kept = createByteBuffer()
  let sent = 0
  let counted = 0
  return {
    push(bytes) {
      sent += bytes.length
      if (sent > Math.max(cap * floodFactor, floodBytes)) throw new FrameError('The init sent more output than it may.')
      const part = bytes.subarray(0, cap - kept.length)
      if (part.length === 0) return
      kept.push(part)
      onBytes(part)
    },
    total(bytes) {
      counted = bytes
    },
    captured() {
      const total = Math.max(sent, counted)
      return { bytes: kept.bytes(), total, truncated: total > kept.length }
    },
  }
}

/** Makes a text of an init safe for a message: short and printable. */
function plain(text: string): string {
  return text.slice(0, 200).replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ')
}

function errorName(errno: number): string {
  try {
    return getSystemErrorName(-errno)
  } catch {
    return `errno ${errno}`
  }
}

/** Most skipped entries; more are a fault of the init, not of the program. */
const mostSkipped = 1_000
const longestPath = 1_280
const longestReason = 80

/** Files collected from a sandbox: paths checked, limits enforced, unchanged input files left out. */
interface Collected {
  file(path: Buffer): void
  bytes(bytes: Buffer): void
  skip(path: Buffer, reason: string): void
  result(): Pick<RunEnd, 'files' | 'skipped'>
}

function createCollected(job: LaunchJob): Collected {
  const { files: inputs, collect } = job
  const all = new Map<string, ByteBuffer>()
  const skipped: { path: string; reason: string }[] = []
  const most = collectRoom(job)
  let current: ByteBuffer | undefined
  let count = 0
  let total = 0

  const skip = (path: string, reason: string): void => {
    if (skipped.length >= mostSkipped) throw new FrameError('The init skipped more files than it may.')
    skipped.push({ path: path.slice(0, longestPath), reason: reason.slice(0, longestReason) })
  }
  return {
    file(bytes) {
      if (++count > most.files) throw new FrameError('The init sent more files than it may.')
      const path = pathOf(bytes)
      current = undefined
      if (path === undefined) return skip(bytes.toString(), 'its name cannot be handed out')
      // A kernel may list a name twice while programs rename in the folder: what was read last counts.
      current = createByteBuffer()
      all.set(path, current)
    },
    bytes(bytes) {
      total += bytes.length
      if (total > most.bytes || count === 0) throw new FrameError('The init sent more bytes than it may.')
      current?.push(bytes)
    },
    skip: (bytes, reason) => skip(bytes.toString(), reason),
    result() {
      const files = new Map<string, Uint8Array>()
      const over: { path: string; reason: string }[] = []
      let left = collect?.bytes ?? 0
      for (const [path, content] of all) {
        const bytes = content.bytes()
        if (isAsBefore(inputs?.get(path), bytes)) continue
        if (files.size >= (collect?.files ?? 0)) over.push({ path, reason: 'over the number of files' })
        else if (bytes.length > left) over.push({ path, reason: 'over the number of bytes' })
        else {
          files.set(path, bytes)
          left -= bytes.length
        }
      }
      return { files, skipped: [...skipped, ...over] }
    },
  }
}

function isAsBefore(input: ReturnType<NonNullable<LaunchJob['files']>['get']>, bytes: Buffer): boolean {
  if (input === undefined) return false
  return bytes.equals(fileOf(input).bytes)
}

/** Returns a portable path below the workspace, or undefined. */
function pathOf(bytes: Buffer): string | undefined {
  const path = bytes.toString()
  return path.includes('\uFFFD') || checkPath(path) !== undefined ? undefined : path
}

const names = new Map(Object.entries(constants.signals).map(([name, number]) => [number as number, name]))

/** `SIGKILL` for 9; real-time signals, which Node does not name, as `SIG34`. */
function signalName(number: number): string {
  return names.get(number) ?? `SIG${number}`
}
