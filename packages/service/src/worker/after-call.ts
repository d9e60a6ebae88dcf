import { type ChainResult, codes, type ErrorInfo, type Result, ToolError } from '@gantry/contract'
import { timeOfCallId } from '../storage/calls/call-id.ts'
import { isMarkedWaiting, isPending } from '../storage/calls/outcomes.ts'
import type { Task } from './slot-scheduler.ts'

type Outcome = Result | ChainResult

/** What is to be done with what came out of a run. */
export type Afterwards =
  | { readonly kind: 'record'; readonly outcome: Outcome }
  | {
      readonly kind: 'release'
      readonly delayMs: number
      readonly reason: string
      readonly asked?: boolean
      readonly counts?: 'fault' | 'rest'
    }
  /** Somebody else has the call. */
  | { readonly kind: 'drop' }

/** Far more than a rest of any backend takes: what never comes back ends at last. */
const mostRests = 200
const longestDelayMs = 60_000

/**
 * Decides on an outcome.
 *
 * A call that was lost is nobody's business here any more. One that was stopped because the worker ends is handed back
 * when it may be repeated, and else its outcome is unknown. One that could not start, because a rate is reached or because
 * a circuit is open that its caller or its tool chose to wait for, waits for its turn without counting as a failure, as
 * long as its time lasts. One that a person must approve first waits for that decision. Everything else is the outcome.
 */
export function afterwards({ claim, stopped }: Task, outcome: Outcome, now: () => number = Date.now): Afterwards {
  if (stopped === 'lost') return { kind: 'drop' }
  const { error } = outcome
  if (isPending(outcome)) {
    const { code, details } = outcome.error
    return { kind: 'release', delayMs: details.expiresMs, reason: code, asked: true }
  }
  if (stopped === 'stopping' && outcome.status === 'cancelled') return handedBack(claim.call.effect, outcome, error)
  const retryAfterMs = error?.details?.retryAfterMs
  const waits = error?.code === 'RATE_LIMITED' || (error?.code === 'CIRCUIT_OPEN' && waitsForCircuit(claim, outcome))
  if (waits && error.effect === 'none' && typeof retryAfterMs === 'number' && claim.rests + 1 < mostRests) {
    // Who came often and in vain comes less often.
    const delayMs = Math.min(longestDelayMs, Math.max(retryAfterMs, 100 * (claim.rests + 1)))
    if (delayMs < timeLeft(claim, error.code, now)) {
      return { kind: 'release', delayMs, reason: error.code, counts: 'rest' }
    }
  }
  return { kind: 'record', outcome }
}

/** For how long a call may wait: until its deadline, and for a circuit no longer than its own timeout from its admission. */
function timeLeft({ call, callId, deadlineMs = Infinity }: Task['claim'], code: string, now: () => number): number {
  if (code !== 'CIRCUIT_OPEN' || call.timeoutMs === undefined) return deadlineMs
  const time = now()
  // The id is made at admission, by a machine whose clock may be ahead.
  const age = Math.max(0, time - (timeOfCallId(callId) ?? time))
  return Math.min(deadlineMs, call.timeoutMs - age)
}

/** A chain or a program decides for each of its calls, and marks an outcome that is no end. */
function waitsForCircuit({ call }: Task['claim'], outcome: Outcome): boolean {
  return call.kind === 'call' ? call.onCircuitOpen === 'wait' : isMarkedWaiting(outcome)
}

function handedBack(effect: string, outcome: Outcome, error: ErrorInfo | undefined): Afterwards {
  const repeatable = effect === 'read' || effect === 'keyed' || effect === 'repeatable'
  if (repeatable || error?.effect === 'none') return { kind: 'release', delayMs: 0, reason: 'stopping' }
  const failure = new ToolError(
    'OUTCOME_UNKNOWN',
    'The worker was stopped while the tool ran, so nobody knows what it did.',
  )
  const { code, message, stage, retryable } = failure
  const unknown: ErrorInfo = { code, message, stage, retryable, effect: failure.effect }
  return { kind: 'record', outcome: { ...outcome, status: codes.OUTCOME_UNKNOWN.status, error: unknown } }
}
