import { codes, type ErrorInfo, type Report, type Result, ToolError } from '@gantry/contract'
import type { EffectSink, Executor, RunOptions } from '@gantry/core'
import type { Thrown } from '@gantry/core/internal/pipeline/failure'
import type { Snapshot } from '../../config/snapshots.ts'
import type { Notices } from '../../reply/notices.ts'
import type { Artifacts } from '../../storage/artifacts/artifact-records.ts'
import { readPayload, releasePayload } from '../../storage/artifacts/payload.ts'
import { asWaiting, downstreamKey, endedOutcome, isPending, timeoutOf } from '../../storage/calls/call-facts.ts'
import type { Claim } from '../../storage/calls/call-store.ts'
import type { JournalRecords } from '../../storage/journal.ts'
import type { Outcome, WorkerPorts } from '../ports.ts'
import type { Task } from '../slot-scheduler.ts'
import type { CallEffects } from './effects.ts'
import type { CallReports, EventWriter, Unstored } from './event-writer.ts'
import { patiently } from './inner-calls.ts'
import { createInnerCharges, type InnerGate } from './inner-charges.ts'
import { createProgramAttempt, type ProgramPorts } from './program-journal.ts'
import { cachedCall, type ResultCache } from './result-cache.ts'
import { chainPayload, journalOf, runDurableChain } from './run-chain.ts'

export interface ExecutionParts {
  readonly journal: JournalRecords
  readonly writer: EventWriter
  readonly effects: CallEffects
  /** Notices to gateways about running calls. */
  readonly notices: Pick<Notices, 'open'>
  /** The results of tools that may be cached; undefined without Redis. */
  readonly cache: ResultCache | undefined
  /** The limits for inner calls of chains and programs. */
  readonly gate: InnerGate
  /** The store of large payloads. */
  readonly artifacts: Artifacts
  /** The database time, in milliseconds since 1970. */
  readonly now: () => number
}

/** Executes claimed calls with these parts, and releases the payloads of calls that have ended. */
export function createExecution(parts: ExecutionParts): Required<Pick<WorkerPorts, 'execute' | 'release'>> {
  const { artifacts } = parts
  return {
    execute: (snapshot, task, traceparent) => executeCall(snapshot, task, traceparent, parts),
    release: ({ executor }, { call }, { result }) => releasePayload(call, result, { executor, artifacts }),
  }
}

/** Executes a claimed call, chain or program. Its reports are stored before it resolves. */
async function executeCall(
  { executor }: Snapshot,
  task: Task,
  traceparent: string | undefined,
  parts: ExecutionParts,
): Promise<Outcome | Paused> {
  const { claim, controller } = task
  const { signal } = controller
  const reports = lazyReports(claim, parts.writer)
  const notices = claim.call.reply === undefined ? undefined : parts.notices.open(claim)
  const report = notices === undefined ? reports.report : both
  try {
    const outcome = await run()
    if (!('pausedMs' in outcome) && isPending(outcome)) await reports.report(waitingReport(outcome.error))
    return outcome
  } finally {
    notices?.close()
    task.unstored = await reports.end()
  }

  function both(reported: Report): void | Promise<void> {
    notices?.report(reported)
    return reports.report(reported)
  }

  async function run(): Promise<Outcome | Paused> {
    const payload = await readPayload(claim.call, parts.artifacts, signal).catch((error: unknown) => {
      // A payload that no longer exists ends the call; an unavailable store makes it wait.
      if (ToolError.is(error) && !error.retryable && !signal.aborted) return error
      throw error
    })
    if (ToolError.is(payload)) return endedOutcome(claim.call, payload, claim.lost, new Date(parts.now()))
    if (claim.call.kind === 'call') {
      const effectSink = parts.effects.of(claim)
      const onThrow = ({ at }: Thrown): void => {
        if (at !== undefined) task.thrownAt = at
      }
      const { cache, now } = parts
      const call = (): Promise<Result> =>
        runCall({ executor, claim, args: payload, signal, traceparent, report, effectSink, onThrow })
      return await (cache === undefined ? call() : cachedCall({ cache, executor, claim, args: payload, now }, call))
    }
    const durable = {
      executor,
      journal: parts.journal,
      claim,
      charges: createInnerCharges(parts.gate, executor, claim.call.identity),
      signal,
      traceparent,
      report,
      now: parts.now,
      effectSink: (entry?: string) => parts.effects.of(claim, entry),
    }
    if (claim.call.kind === 'code') return await runDurableProgram({ ...durable, args: payload })
    return await runDurableChain({ ...durable, payload: chainPayload(payload) })
  }
}

export interface RunCall {
  readonly executor: Executor
  readonly claim: Claim
  readonly args: unknown
  readonly signal: AbortSignal
  /** The trace context of the call. */
  readonly traceparent?: string | undefined
  readonly report: (report: Report) => void | Promise<void>
  /** Stores the effects of the tool; without it messages are only in the result, and there are no files. */
  readonly effectSink?: EffectSink
  readonly onThrow?: RunOptions['onThrow']
}

/** Runs a claimed call through the pipeline, as its caller and with the tool that it was admitted for. */
export function runCall({
  executor,
  claim,
  args,
  signal,
  traceparent,
  report,
  effectSink,
  onThrow,
}: RunCall): Promise<Result> {
  const { call } = claim
  return executor.run(call.tool, args, {
    callId: call.callId,
    identity: call.identity,
    idempotencyKey: downstreamKey(call),
    fence: claim.fence,
    signal,
    traceparent,
    origin: call.origin,
    report,
    effectSink,
    onThrow,
    // A call that waits for its circuit waits in the queue, not in a worker.
    onCircuitOpen: 'fail',
    ...(call.digest === undefined ? {} : { schemaDigest: call.digest }),
    ...timeoutOf(claim),
  })
}

/** Reports to followers of the call which approval it waits for. */
function waitingReport({ message, details }: ErrorInfo): Report {
  return { kind: 'log', level: 'warn', message: `${message} (approval ${details?.approvalId})` }
}

/** Most calls report nothing, and cost nothing here. Reports of a call that is not stored yet wait until it is. */
export function lazyReports(
  { callId, fence, entering }: Pick<Claim, 'callId' | 'fence' | 'entering'>,
  writer: Pick<EventWriter, 'open'>,
): CallReports {
  let opened: CallReports | undefined
  let entered = entering === undefined
  const write = (report: Report): void | Promise<void> => {
    entered = true
    opened ??= writer.open({ callId, fence })
    return opened.report(report)
  }
  let waiting: Promise<void> | undefined
  return {
    report(report: Report): void | Promise<void> {
      if (entered) return write(report)
      waiting = entering?.then(
        () => write(report),
        () => undefined,
      )
      return waiting
    },
    async end(): Promise<Unstored> {
      await waiting
      return (await opened?.end()) ?? { events: [], lost: 0 }
    },
  }
}

export interface DurableProgram extends ProgramPorts {
  readonly executor: Pick<Executor, 'run' | 'reconcile' | 'catalog'>
  /** The arguments of the program's tool. */
  readonly args: unknown
  /** The trace context of the program. */
  readonly traceparent?: string | undefined
  /** Receives what the program prints; not what an earlier attempt printed. */
  readonly report: (report: Report) => void | Promise<void>
}

/** A program that sleeps, and is to be resumed after this time. */
export interface Paused {
  readonly pausedMs: number
}

/**
 * Runs a program over tools so that a later attempt, in any worker, resumes it where this one got to; see
 * `createProgramAttempt`. It runs with the current definition of its tool, because journaled outcomes do not change. A
 * program with a call that requires approval has that call's error as its outcome, which is not final.
 * - Cancellation: as for any call.
 * - Errors: rejects when this attempt has no outcome and the call remains to be done: with an error that `isLost`
 *   recognises when another worker has it, with the journal's error when it refuses a write, with the signal's reason
 *   when the journal could not be read until then.
 */
export async function runDurableProgram(program: DurableProgram): Promise<Result | Paused> {
  const { executor, journal, claim, signal, now = Date.now } = program
  const { call } = claim
  const known = await patiently(() => journalOf(claim, journal), signal)
  let goesOn = known.size === 0
  const attempt = createProgramAttempt(program, known, () => {
    goesOn = true
  })
  const result = await executor.run(nameOf(call.tool), program.args, {
    callId: call.callId,
    identity: call.identity,
    idempotencyKey: downstreamKey(call),
    fence: claim.fence,
    signal,
    traceparent: program.traceparent,
    report: (report) => (goesOn ? program.report(report) : undefined),
    effectSink: program.effectSink?.(),
    program: attempt.journal,
    ...timeoutOf(claim),
  })
  await attempt.end()
  if (attempt.failure !== undefined) throw attempt.failure
  const { waits, wakeMs } = attempt
  if (result.status !== 'cancelled' || signal.aborted) return result
  const pausedMs = wakeMs === undefined ? undefined : Math.max(1, Math.min(wakeMs - now(), claim.deadlineMs ?? wakeMs))
  if (waits !== undefined) {
    return asWaiting({ ...result, status: codes[waits.code].status, error: until(waits, pausedMs) })
  }
  return pausedMs === undefined ? result : { pausedMs }
}

/** A wait for approval during a sleep lasts no longer than the sleep. */
function until(waits: ErrorInfo, pausedMs: number | undefined): ErrorInfo {
  const expiresMs = waits.details?.expiresMs
  if (pausedMs === undefined || typeof expiresMs !== 'number' || expiresMs <= pausedMs) return waits
  return { ...waits, details: { ...waits.details, expiresMs: pausedMs } }
}

/** The tool without its version. */
function nameOf(tool: string): string {
  return tool.split(':').slice(0, 2).join(':')
}
