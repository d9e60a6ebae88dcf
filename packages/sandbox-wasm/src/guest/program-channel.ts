import type { Json, JsonObject, ToolError } from '@gantry/contract'
import type { Outcome, ProgramMessage, SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import { createLines } from '@gantry/sandbox/internal/launcher/message-lines'

/** Reads what a program says on its own channel: its value is kept, messages are passed on, the rest is ignored. */
export interface ProgramChannel {
  push(bytes: Uint8Array): void
  /** The last value, when there was one, and what could not be read. */
  value(): Pick<Outcome, 'value' | 'lost'>
}

/** `onDone` is called with a line `{"done":true,…}`, by which an interpreter that is kept ends a turn; `onFlood` when the run is to be ended. */
export function createProgramChannel(
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

function isObject(value: Json): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
