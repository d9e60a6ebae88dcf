import { ToolError } from '@gantry/contract'
import type { Claim } from '../storage/calls/call-store.ts'

/** What is to be done with a call that was claimed. */
export type Verdict =
  /** `begin`: it must be said durably before; `alone`: no other suspect may run beside it here. */
  | { readonly kind: 'run'; readonly begin: boolean; readonly alone: boolean }
  /** An earlier attempt may have done it: ask the tool. */
  | { readonly kind: 'reconcile' }
  | { readonly kind: 'end'; readonly error: ToolError; readonly dead?: string }

export interface ExamineOptions {
  /** So many workers may die with a call before it is given up. */
  readonly maxDeaths: number
  /** The claim came with the submission, which is the first attempt and said that it begins. */
  readonly fresh: boolean
}

/**
 * Decides on a claimed call from what the store knows of its past.
 *
 * A call that was cancelled, is out of time, or took too many workers with it ends here. One that an earlier attempt had
 * begun runs again only if its effect class allows: `once` ends as unknown, `reconcilable` is looked up first. What may
 * happen once only is begun durably; so is a call whose holder was lost before, because he may have died of it. One that
 * was lost twice is a suspect: suspects run one at a time, so that those which merely stood near a fatal one are not
 * given up with it.
 */
export function examine(claim: Claim, { maxDeaths, fresh }: ExamineOptions): Verdict {
  const { call, cancelled, deadlineMs, begun, deaths, lost } = claim
  if (begun && call.effect === 'once') return { kind: 'end', error: unknownOutcome(call.tool) }
  // The first attempt of most calls does not say that it begins, so one loss more than the certain ones is taken for it.
  if (lost >= maxDeaths && deaths >= maxDeaths - 1) {
    const reason = `${lost} workers were lost while they had it.`
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

/** Whether it may have run in part, as a chain or a program that was handed back, because it waits for a person, say. */
export function wasInPart({ call, deliveries }: Claim): boolean {
  return call.kind !== 'call' && deliveries > 1
}

/** Whether earlier holders may have changed something. */
export function earlierEffect(claim: Claim): 'none' | 'possible' {
  const { call, lost } = claim
  return wasInPart(claim) || (lost > 0 && call.effect !== 'read') ? 'possible' : 'none'
}

export function unknownOutcome(tool: string): ToolError {
  const message = `The worker that ran ${tool} did not come back, so nobody knows what it did.`
  return new ToolError('OUTCOME_UNKNOWN', message)
}
