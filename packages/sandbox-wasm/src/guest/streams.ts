import type { JsonObject, SandboxLimits, ToolError } from '@gantry/contract'
import type { Outcome, SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import type { Stream } from '../channel/messages.ts'
import { type Capture, createCapture } from './capture.ts'
import { createProgramChannel, type ProgramChannel } from './program-channel.ts'

/** What a program writes in one run, kept and passed on. */
export interface Streams {
  readonly stdout: Capture
  readonly stderr: Capture
  readonly channel: ProgramChannel
  push(stream: Stream, bytes: Uint8Array): void
  /** As it stands in an outcome. */
  kept(): Pick<Outcome, 'stdout' | 'stderr' | 'value' | 'lost'>
}

/** `onDone` is called when an interpreter that is kept has ended a turn, `onFlood` when the program's channel is flooded. */
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
