import { codes, type ErrorInfo, type Report, type Result } from '@gantry/contract'
import type { Executor } from '@gantry/core'
import { downstreamKey } from '../../storage/calls/call-facts.ts'
import { asWaiting } from '../../storage/calls/outcomes.ts'
import { patiently } from './inner-calls.ts'
import { createProgramAttempt, type ProgramPorts } from './program-journal.ts'
import { timeout } from './run-call.ts'
import { journalOf } from './run-chain.ts'

export interface DurableProgram extends ProgramPorts {
  readonly executor: Pick<Executor, 'run' | 'reconcile' | 'catalog'>
  /** What the tool of the program is called with. */
  readonly args: unknown
  /** Where the program stands in a trace. */
  readonly traceparent?: string | undefined
  /** Hears what the program prints; of what an earlier attempt came to it was told then. */
  readonly report: (report: Report) => void | Promise<void>
}

/** A program that sleeps, and is to be taken up again after so long. */
export interface Paused {
  readonly pausedMs: number
}

/**
 * Runs a program over tools so that a later attempt, here or elsewhere, takes it up where this one got to; see
 * `createProgramAttempt`. It runs as its tool is defined now, because what was told stays told.
 * A program in which a person must approve a call first has that call's error as its outcome, which is no end.
 * - Cancellation: as a call's.
 * - Errors: rejects when this attempt has no outcome and the call is still to be done: with what `isLost` knows when
 *   somebody else has it, with the journal's error when it refuses a write, with the signal's reason when it could not
 *   be read until then.
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
    writeBack: program.writeBack?.(),
    program: attempt.journal,
    ...timeout(claim),
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

/** What waits for a person, beside something that sleeps, waits no longer than that does. */
function until(waits: ErrorInfo, pausedMs: number | undefined): ErrorInfo {
  const expiresMs = waits.details?.expiresMs
  if (pausedMs === undefined || typeof expiresMs !== 'number' || expiresMs <= pausedMs) return waits
  return { ...waits, details: { ...waits.details, expiresMs: pausedMs } }
}

/** Of whatever version there is. */
function nameOf(tool: string): string {
  return tool.split(':').slice(0, 2).join(':')
}
