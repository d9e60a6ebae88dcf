import type { Json, JsonObject, SandboxLimits, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { Captured, Outcome, ProgramMessage, SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import { createLines } from '@gantry/sandbox/internal/launcher/message-lines'

/** The streams of a program: its standard streams, and the channel for its value. */
export type Stream = 'stdout' | 'stderr' | 'channel'

/** Keeps and forwards what a program writes in one run. */
export interface Streams {
  readonly stdout: Capture
  readonly stderr: Capture
  readonly channel: ProgramChannel
  push(stream: Stream, bytes: Uint8Array): void
  /** The streams as they appear in an outcome. */
  kept(): Pick<Outcome, 'stdout' | 'stderr' | 'value' | 'lost'>
}

/** `onDone` is called when a kept interpreter has ended a turn, `onFlood` when the program's channel is flooded. */
export function createStreams(
  job: SandboxJob,
  limits: SandboxLimits,
  onFlood: (error: ToolError) => void,
  onDone?: (line: JsonObject) => void,
): Streams {
  const stdout = createCapture(limits.stdoutBytes)
  const stderr = createCapture(limits.stderrBytes)
  const channel = createProgramChannel(job, onFlood, onDone)
  return {
    stdout,
    stderr,
    channel,
    push(stream, bytes) {
      if (stream === 'channel') return channel.push(bytes)
      const part = (stream === 'stdout' ? stdout : stderr).push(bytes)
      if (part.length > 0) job.onOutput?.(stream, part)
    },
    kept: () => ({ stdout: stdout.captured(), stderr: stderr.captured(), ...channel.value() }),
  }
}

/** Keeps the output of one stream up to a limit, and counts all of it. */
interface Capture {
  /** Adds bytes and returns those that are kept. */
  push(bytes: Uint8Array): Uint8Array
  /** Sets the total when it was counted elsewhere. */
  count(total: number): void
  readonly total: number
  captured(): Captured
}

function createCapture(limit: number): Capture {
  const chunks: Uint8Array[] = []
  let kept = 0
  let total = 0
  return {
    push(bytes) {
      total += bytes.length
      const part = bytes.subarray(0, limit - kept)
      if (part.length > 0) chunks.push(part)
      kept += part.length
      return part
    },
    count(written) {
      total = Math.max(total, written)
    },
    get total() {
      return total
    },
    captured: () => ({ bytes: Buffer.concat(chunks, kept), total, truncated: total > kept }),
  }
}

/** Reads a program's channel: its value is kept, messages are forwarded, everything else is ignored. */
interface ProgramChannel {
  push(bytes: Uint8Array): void
  /** The last value, if there was one, and what could not be parsed. */
  value(): Pick<Outcome, 'value' | 'lost'>
}

/**
 * `onDone` is called with a line `{"done":true,…}`, by which a kept interpreter ends a turn; `onFlood` when the run must be
 * ended.
 */
function createProgramChannel(
  { onMessage }: Pick<SandboxJob, 'onMessage'>,
  onFlood: (error: ToolError) => void,
  onDone?: (line: JsonObject) => void,
): ProgramChannel {
  let last: { readonly value?: Json } = {}
  const lines = createLines({
    onValue(line) {
      if (!isObject(line)) return
      const message = messageOf(line)
      if (line.value !== undefined) last = { value: line.value }
      else if (message !== undefined) onMessage?.(message)
    },
    onFlood,
    ...(onDone === undefined ? {} : { onDone }),
  })
  return {
    push: (bytes) => lines.push(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)),
    value() {
      lines.end()
      const lost = { lines: lines.dropped, keys: lines.droppedKeys }
      return { ...last, ...(lost.lines + lost.keys === 0 ? {} : { lost }) }
    },
  }
}

function messageOf({ progress, total, message, log }: JsonObject): ProgramMessage | undefined {
  if (typeof log === 'string') return { kind: 'log', message: log }
  if (typeof progress !== 'number') return undefined
  return {
    kind: 'progress',
    progress,
    ...(typeof total === 'number' ? { total } : {}),
    ...(typeof message === 'string' ? { message } : {}),
  }
}
