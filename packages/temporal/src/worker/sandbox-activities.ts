import { ToolError } from '@gantry/contract'
import type { ProgramMessage } from '@gantry/core/internal/runtimes/runtime'
import type { Runtimes } from '@gantry/core/internal/runtimes/runtimes'
import { isWireSpec, type OfferedRuntime } from '@gantry/sandbox-remote/internal/protocol/documents'
import { decodeJob } from '@gantry/sandbox-remote/internal/protocol/job'
import { confinementOf, programOf } from '@gantry/sandbox-remote/internal/server/held-sandboxes'
import { findOffers } from '@gantry/sandbox-remote/internal/server/offers'
import { Context } from '@temporalio/activity'
import { encodeEnd, type OutputReport, type SandboxEnd } from '../protocol/outcome.ts'
import { offersActivity, type SandboxTask, sandboxActivity } from '../protocol/sandbox.ts'
import type { PayloadFit } from './payload-fit.ts'
import { isShutDown } from './shutdown.ts'

/** Offers are found again after this time, because an operator may have repaired a runtime. */
const offersMs = 30_000
/** Output that a heartbeat holds; the outcome has all of it. */
const mostReportBytes = 131_072
const mostMessages = 1_000
/** A cancellation takes no longer than this to arrive. */
const longestBeatMs = 1_000

/** The activities of a worker that offers sandboxes. */
export function createSandboxActivities(runtimes: Pick<Runtimes, 'take' | 'list' | 'explain'>, fit: PayloadFit) {
  let offers: { readonly at: number; readonly found: Promise<readonly OfferedRuntime[]> } | undefined
  const offered = (): Promise<readonly OfferedRuntime[]> => {
    if (offers === undefined || performance.now() - offers.at > offersMs) {
      // The signal is not that of one activity: several share the answer.
      offers = { at: performance.now(), found: findOffers(runtimes, new AbortController().signal) }
      offers.found.catch(() => {
        offers = undefined
      })
    }
    return offers.found
  }
  return {
    [offersActivity]: async () => ({ runtimes: await offered() }),
    [sandboxActivity]: async (task: unknown, job: unknown): Promise<Uint8Array> => {
      const { cancellationSignal: signal } = Context.current()
      const end = await runTask(runtimes, task, job, signal).catch((error: unknown): SandboxEnd => {
        if (isShutDown(signal)) return { kind: 'error', error: shutDownError() }
        signal.throwIfAborted()
        return { kind: 'error', error: toolErrorOf(error) }
      })
      const bytes = encodeEnd(end)
      const size = await fit(bytes)
      if (size === undefined) return bytes
      const message = `What the program returned has ${size} bytes, more than Temporal takes; return less, or put it into a store of your own.`
      return encodeEnd({ kind: 'error', error: new ToolError('RESULT_TOO_LARGE', message) })
    },
  }
}

function shutDownError(): ToolError {
  const message = 'The Temporal worker was shut down while the program ran, and the program was ended.'
  return new ToolError('BACKEND_FAILED', message)
}

function toolErrorOf(error: unknown): ToolError {
  return ToolError.is(error)
    ? error
    : new ToolError('BACKEND_FAILED', 'The runtime of the worker failed.', { cause: error })
}

async function runTask(
  runtimes: Pick<Runtimes, 'take'>,
  task: unknown,
  job: unknown,
  signal: AbortSignal,
): Promise<SandboxEnd> {
  if (!isTask(task) || !(job instanceof Uint8Array)) {
    const message = 'The task is not one of a client with a key of this worker; compare payloadKey on both sides.'
    throw new ToolError('INPUT_INVALID', message, { effect: 'none' })
  }
  if (Date.now() > task.notAfterMs)
    throw new ToolError('SANDBOX_INIT_FAILED', 'The program waited too long for a worker, and was not started.')
  const { streams, messages: _, gateway, ...rest } = decodeJob(Buffer.from(job))
  if (gateway)
    throw new ToolError('INPUT_INVALID', 'A program over tools does not run over Temporal.', { effect: 'none' })
  const beat = startHeartbeat(task.heartbeatMs, streams)
  try {
    const { sandbox, runtime } = await runtimes.take(programOf(task.spec), confinementOf(task.spec), signal)
    try {
      const messages: ProgramMessage[] = []
      const outcome = await sandbox.run(
        {
          ...rest,
          onMessage: (message) => void (messages.length < mostMessages && messages.push(message)),
          onOutput: beat.output,
        },
        signal,
      )
      const { kind, isolation, image } = runtime
      return {
        kind: 'outcome',
        within: { kind, isolation, ...(image === undefined ? {} : { image }) },
        outcome,
        messages,
      }
    } finally {
      await sandbox.dispose()
    }
  } finally {
    beat.stop()
  }
}

function isTask(value: unknown): value is SandboxTask {
  if (typeof value !== 'object' || value === null) return false
  const { spec, notAfterMs, heartbeatMs } = value as Partial<SandboxTask>
  return isWireSpec(spec) && typeof notAfterMs === 'number' && typeof heartbeatMs === 'number'
}

/** Heartbeats, by which a cancellation reaches the worker, with the output of the program so far. */
function startHeartbeat(heartbeatMs: number, streams: boolean) {
  const context = Context.current()
  let pieces: OutputReport['pieces'][number][] = []
  let [skipped, bytes] = [0, 0]
  const beat = (): void => context.heartbeat({ skipped, pieces } satisfies OutputReport)
  const timer = setInterval(beat, Math.min(longestBeatMs, heartbeatMs / 4))
  return {
    output(stream: 'stdout' | 'stderr', content: Uint8Array): void {
      if (!streams) return
      pieces.push({ stream, base64: Buffer.from(content).toString('base64') })
      bytes += content.length
      while (bytes > mostReportBytes) {
        const [first, ...others] = pieces
        if (first === undefined) break
        bytes -= Buffer.byteLength(first.base64, 'base64')
        pieces = others
        skipped += 1
      }
      beat()
    },
    stop: () => clearInterval(timer),
  }
}
