import { setTimeout as delay } from 'node:timers/promises'
import { type SandboxLimits, ToolError } from '@gantry/contract'
import { follow, onAbort } from '@gantry/core/internal/resilience/abort'
import type { ProgramResponse, SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import { jsonBytes } from '../protocol/documents.ts'
import { createFrameReader, FrameError } from '../protocol/frames.ts'
import { encodeJob } from '../protocol/job.ts'
import { ConnectionLost, type FrameStream, type HostClient, HostRefusal, type HostRequest } from './host-client.ts'
import { createRunIntake, type RunEnd, type RunIntake } from './run-intake.ts'

export interface RemoteRun {
  readonly client: HostClient
  /** `host:port`, for messages. */
  readonly host: string
  readonly instance: string
  /** Of the run, on the host. */
  readonly path: string
  readonly limits: SandboxLimits
  /** How long the host keeps a run without a request. */
  readonly keepMs: number
}

/** How long a lost connection is tried again, beyond the time for which the host keeps a run. */
const resumeMs = 1_000
/** The host sends something every 5 seconds. */
const silentMs = 20_000
/** Time beyond the wall limit after which the host is taken to have failed. */
const graceMs = 120_000
const answerMs = 60_000
/** Characters of gateway responses in one request. */
const batchBytes = 8_388_608
const [firstPauseMs, longestPauseMs] = [20, 1_000]

/**
 * Runs a job on a host, once. A lost connection is resumed by the number of the last frame.
 * - Errors: SANDBOX_INIT_FAILED when the job certainly did not start; OUTCOME_UNKNOWN when it may have run and the host,
 *   or what it knew of the run, is gone; BACKEND_FAILED for a host that does not keep to the protocol.
 */
export async function runRemotely(run: RemoteRun, job: SandboxJob, given: AbortSignal): Promise<RunEnd> {
  const { client, host, instance, path, limits } = run
  const body = encodeJob(job)
  const over = new AbortController()
  const { signal, leave } = follow(given, over.signal)
  const answers = createAnswers(run, signal, () => intake.frames)
  const intake = createRunIntake(job, limits, host, answers.give)
  const late = setTimeout(() => over.abort(unknown(host, 'it did not report an end in time')), limits.wallMs + graceMs)
  let mayHaveStarted = false
  let lostAt: number | undefined
  let pauseMs = firstPauseMs
  let isResuming = false

  const request = (): HostRequest =>
    isResuming
      ? { method: 'GET', path: `${path}?after=${intake.frames}`, instance, timeoutMs: silentMs }
      : { method: 'PUT', path, instance, body, timeoutMs: answerMs }
  /** Decides what follows a failure; throws when the run has ended by it. */
  const failed = async (error: unknown): Promise<void> => {
    signal.throwIfAborted()
    if (error instanceof HostRefusal) {
      // The host that was asked is the one of before, and the job has not arrived: sending it again starts it once.
      if (error.code === 'RUN_UNKNOWN') isResuming = false
      else throw mayHaveStarted ? unknown(host, error.message, error) : notStarted(host, error)
      return
    }
    if (!(error instanceof ConnectionLost) && !(error instanceof FrameError)) throw error
    mayHaveStarted ||= !(error instanceof ConnectionLost) || error.isSent
    if (!mayHaveStarted) throw notStarted(host, error)
    const now = performance.now()
    lostAt ??= now
    if (now - lostAt > run.keepMs + resumeMs) throw unknown(host, error.message, error)
    isResuming = true
    await delay(pauseMs, undefined, { signal }).catch(() => signal.throwIfAborted())
    pauseMs = Math.min(longestPauseMs, pauseMs * 2)
  }
  try {
    for (;;) {
      try {
        const stream = await client.stream(request(), signal)
        mayHaveStarted = true
        const end = await readStream(stream, intake, signal, () => {
          lostAt = undefined
          pauseMs = firstPauseMs
        })
        if (end !== undefined) return end
        throw new ConnectionLost(`${host} closed the connection`, true)
      } catch (error) {
        await failed(error)
      }
    }
  } finally {
    clearTimeout(late)
    leave()
    answers.close()
  }
}

/** Reads frames until the end of the run or of the stream; the latter gives undefined. */
async function readStream(
  { response, request, key }: FrameStream,
  intake: RunIntake,
  signal: AbortSignal,
  onFrames: () => void,
): Promise<RunEnd | undefined> {
  const reader = createFrameReader(key, request)
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const leave = onAbort(signal, () => reject(signal.reason))
  const silent = setTimeout(resolve, silentMs)
  const onData = (bytes: Buffer): void => {
    try {
      const frames = reader.push(bytes)
      // Only frames that the host signed show that it is there.
      if (frames.length > 0) onFrames()
      silent.refresh()
      for (const frame of frames) intake.take(frame)
      if (intake.end !== undefined) resolve()
    } catch (error) {
      reject(error)
    }
  }
  response.on('data', onData).once('close', resolve)
  try {
    await promise
    return intake.end
  } finally {
    clearTimeout(silent)
    leave()
    response.off('data', onData).off('close', resolve)
    letGo(response, intake.end !== undefined)
  }
}

/** After the last frame the connection serves the next request, when the host ends the response as it should. */
function letGo(response: FrameStream['response'], isWhole: boolean): void {
  if (!isWhole) return void response.destroy()
  const late = setTimeout(() => response.destroy(), firstPauseMs * 50).unref()
  response.once('close', () => clearTimeout(late)).resume()
}

/** Sends gateway responses in their order, one request at a time; what is given meanwhile goes with the next. */
function createAnswers({ client, instance, path }: RemoteRun, signal: AbortSignal, received: () => number) {
  const waiting: ProgramResponse[] = []
  let [sent, isSending, isClosed] = [0, false, false]
  const post = async (answers: readonly ProgramResponse[]): Promise<void> => {
    const body = jsonBytes({ first: sent + 1, answers })
    for (let pauseMs = firstPauseMs; !isClosed; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
      try {
        const request = { method: 'POST', instance, body, timeoutMs: silentMs } as const
        return void (await client.ask({ ...request, path: `${path}/answers?after=${received()}` }, signal))
      } catch (error) {
        // Any other error is that of the run itself, which its stream reports.
        if (!(error instanceof ConnectionLost)) return
        await delay(pauseMs, undefined, { signal }).catch(() => undefined)
      }
    }
  }
  const pump = async (): Promise<void> => {
    isSending = true
    while (waiting.length > 0 && !isClosed) {
      const batch = waiting.splice(0, batchSize(waiting))
      await post(batch)
      sent += batch.length
    }
    isSending = false
  }
  return {
    give(answer: ProgramResponse): void {
      waiting.push(answer)
      // Responses that are given in one turn go in one request.
      if (!isSending) queueMicrotask(() => void (isSending || pump()))
    },
    close(): void {
      isClosed = true
    },
  }
}

/** As many responses as fit into one request; at least one. */
function batchSize(answers: readonly ProgramResponse[]): number {
  let left = batchBytes
  const count = answers.findIndex(({ text }) => {
    left -= text.length
    return left < 0
  })
  return count === -1 ? answers.length : Math.max(1, count)
}

function unknown(host: string, why: string, cause?: unknown): ToolError {
  const message = `The program was sent to ${host}, and its outcome is unknown: ${why}.`
  return new ToolError('OUTCOME_UNKNOWN', message, { details: { host }, ...(cause === undefined ? {} : { cause }) })
}

function notStarted(host: string, cause: Error): ToolError {
  return new ToolError('SANDBOX_INIT_FAILED', `The program did not start on ${host}: ${cause.message}.`, { cause })
}
