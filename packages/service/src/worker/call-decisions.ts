import { codes, type ErrorInfo, ToolError } from '@gantry/contract'
import type { Executor } from '@gantry/core'
import { isMarkedWaiting, isPending, type NeededTool, needOf, timeOfCallId } from '../storage/calls/call-facts.ts'
import type { AdmittedCall, Claim } from '../storage/calls/call-store.ts'
import type { Outcome } from './ports.ts'
import type { Task } from './slot-scheduler.ts'

/** The decision on a claimed call. */
export type Verdict =
  /**
   * `begin`: its beginning must be recorded durably first; `alone`: no other suspect may run at the same time in this worker.
   */
  | { readonly kind: 'run'; readonly begin: boolean; readonly alone: boolean }
  /** An earlier attempt may have executed it: the tool's reconcile function decides. */
  | { readonly kind: 'reconcile' }
  | { readonly kind: 'end'; readonly error: ToolError; readonly dead?: string }

export interface ExamineOptions {
  /** The number of workers that may crash with a call before it becomes a dead letter. */
  readonly maxDeaths: number
  /** The claim came with the submission, which is the first attempt and has recorded its beginning. */
  readonly fresh: boolean
}

/**
 * Decides on a claimed call from its history in the store.
 * | ## Decisions
 * - A call that was cancelled, is past its deadline, or crashed too many workers ends.
 * - A call that an earlier attempt began runs again only if its effect class allows it: `once` ends as unknown,
 *   `reconcilable` is looked up first.
 * - A call that may happen once only records its beginning durably first. So does a call whose worker was lost before,
 *   because the call may be the cause.
 * - A call whose worker was lost twice is a suspect. Suspects run one at a time, so that calls that only ran together with the
 *   one that crashes workers do not become dead letters with it.
 */
export function examine(claim: Claim, { maxDeaths, fresh }: ExamineOptions): Verdict {
  const { call, cancelled, deadlineMs, begun, deaths, lost } = claim
  if (begun && call.effect === 'once') return { kind: 'end', error: unknownOutcome(call.tool) }
  // The first attempt of most calls does not record its beginning, so one loss more than the certain ones counts as a
  // crash.
  if (lost >= maxDeaths && deaths >= maxDeaths - 1) {
    const reason = `${lost} workers were lost while they held its lease.`
    return {
      kind: 'end',
      error: new ToolError('DELIVERY_EXHAUSTED', `${call.tool} was given up: ${reason}`),
      dead: reason,
    }
  }
  if (begun && call.effect === 'reconcilable') return { kind: 'reconcile' }
  const effect = earlierEffect(claim)
  const ran = wasInPart(claim) ? 'was done' : 'ran'
  if (cancelled) {
    return { kind: 'end', error: new ToolError('CANCELLED', `The call was cancelled before it ${ran}.`, { effect }) }
  }
  if (deadlineMs !== undefined && deadlineMs <= 0) {
    return { kind: 'end', error: new ToolError('TIMEOUT', `The deadline passed before the call ${ran}.`, { effect }) }
  }
  const delicate = call.effect === 'once' || call.effect === 'reconcilable'
  return { kind: 'run', begin: !fresh && (delicate || lost > 0), alone: lost > 1 }
}

/** Whether it may have run in part, as a chain or a program that was released, for instance to wait for approval. */
export function wasInPart({ call, deliveries }: Claim): boolean {
  return call.kind !== 'call' && deliveries > 1
}

/** Whether earlier attempts may have changed something. */
export function earlierEffect(claim: Claim): 'none' | 'possible' {
  const { call, lost } = claim
  return wasInPart(claim) || (lost > 0 && call.effect !== 'read') ? 'possible' : 'none'
}

export function unknownOutcome(tool: string): ToolError {
  const message = `The worker was lost while it ran ${tool}; the outcome is unknown.`
  return new ToolError('OUTCOME_UNKNOWN', message)
}

/** A tool, in the version that a call was admitted for, that this worker does not have. */
export interface MissingTool {
  readonly need: string
  readonly error: ToolError
}

/** The first tool that a call needs and the executor does not have; undefined when the call can run here. */
export async function missingTool(
  { executor }: { readonly executor: Pick<Executor, 'missing'> },
  call: Pick<AdmittedCall, 'kind' | 'tool' | 'digest'>,
): Promise<MissingTool | undefined> {
  for (const needed of neededTools(call)) {
    const error = await executor.missing(needed.tool, needed.digest)
    if (error !== undefined) return { need: needOf(needed), error }
  }
  return undefined
}

/**
 * A call needs its tool as it was admitted. A program runs with the definition of its tool where it runs. A chain needs
 * those tools of its steps that were visible when it was admitted; a step reports any other as not found.
 */
function neededTools({ kind, tool, digest }: Pick<AdmittedCall, 'kind' | 'tool' | 'digest'>): readonly NeededTool[] {
  if (kind === 'call') return [digest === undefined ? { tool } : { tool, digest }]
  if (kind === 'code') return [{ tool: tool.split(':').slice(0, 2).join(':') }]
  return digest === undefined ? [] : toolsOfSteps(digest).map((step) => ({ tool: step }))
}

function toolsOfSteps(digest: string): readonly string[] {
  const tools: unknown = JSON.parse(digest)
  if (Array.isArray(tools)) return tools.map(String)
  throw new TypeError('The digest of a chain is not a list of tools.')
}

/** The decision on the outcome of an attempt. */
export type Afterwards =
  | { readonly kind: 'record'; readonly outcome: Outcome }
  | {
      readonly kind: 'release'
      readonly delayMs: number
      readonly reason: string
      readonly asked?: boolean
      readonly counts?: 'fault' | 'rest'
    }
  /** The lease is lost: another worker has the call. */
  | { readonly kind: 'drop' }

/** Far longer than any outage of a backend: a call that waits in vain ends after all. */
const mostRests = 200
const longestDelayMs = 60_000

/**
 * Decides on an outcome.
 * | ## Decisions
 * - The outcome of a call whose lease was lost is dropped.
 * - A call that was stopped because the worker stops is released when it may be repeated; otherwise its outcome is
 *   unknown.
 * - A call that could not start, because a rate is reached or because a circuit is open that its caller or its tool
 *   chose to wait for, is released to wait without counting as a failure, as long as its time lasts.
 * - A call that requires approval waits for the decision.
 * - Everything else is the outcome.
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
    // A call that was released often waits longer.
    const delayMs = Math.min(longestDelayMs, Math.max(retryAfterMs, 100 * (claim.rests + 1)))
    if (delayMs < timeLeft(claim, error.code, now)) {
      return { kind: 'release', delayMs, reason: error.code, counts: 'rest' }
    }
  }
  return { kind: 'record', outcome }
}

/**
 * The time that a call may wait: until its deadline, and for a circuit no longer than its own timeout from its
 * admission.
 */
function timeLeft({ call, callId, deadlineMs = Infinity }: Task['claim'], code: string, now: () => number): number {
  if (code !== 'CIRCUIT_OPEN' || call.timeoutMs === undefined) return deadlineMs
  const time = now()
  // The id has the time of its admission, by a clock that may be ahead.
  const age = Math.max(0, time - (timeOfCallId(callId) ?? time))
  return Math.min(deadlineMs, call.timeoutMs - age)
}

/** A chain or a program decides for each of its calls, and marks an outcome that waits. */
function waitsForCircuit({ call }: Task['claim'], outcome: Outcome): boolean {
  return call.kind === 'call' ? call.onCircuitOpen === 'wait' : isMarkedWaiting(outcome)
}

function handedBack(effect: string, outcome: Outcome, error: ErrorInfo | undefined): Afterwards {
  const repeatable = effect === 'read' || effect === 'keyed' || effect === 'repeatable'
  if (repeatable || error?.effect === 'none') return { kind: 'release', delayMs: 0, reason: 'stopping' }
  const failure = new ToolError('OUTCOME_UNKNOWN', 'The worker was stopped while the tool ran; the outcome is unknown.')
  const { code, message, stage, retryable } = failure
  const unknown: ErrorInfo = { code, message, stage, retryable, effect: failure.effect }
  return { kind: 'record', outcome: { ...outcome, status: codes.OUTCOME_UNKNOWN.status, error: unknown } }
}
