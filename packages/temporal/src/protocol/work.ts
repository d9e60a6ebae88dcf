/**
 * Documents of the engine role. Workflow code reads this file, so it imports types only, and nothing of Node.
 */
import type { EffectClass, ErrorInfo, Identity, Json, JsonObject, Result } from '@gantry/contract'
import type { InnerOutcome } from '@gantry/core'

/** A chain or a program that was handed over. Only a holder of the payload key can write one, and so its identity. */
export interface WorkDocument {
  readonly kind: 'chain' | 'program'
  readonly id: string
  readonly identity: Identity
  /** Of the random numbers of a program. */
  readonly seed: number
  readonly timeoutMs?: number
  /** A worker that is silent for this long is lost. */
  readonly heartbeatMs: number
  /** The work itself: steps, input and limits, or code, language, limits and check. */
  readonly body: JsonObject
}

/** The outcome of one request, in the order in which the work got it. */
export interface JournalEntry {
  /** The number of a program's request; of a call in a chain its step, behind the number of the chain where a program made it. */
  readonly key: string
  /** Of the request; the same under the same key, or the work has diverged. */
  readonly fingerprint: string
  readonly outcome: InnerOutcome
  readonly atMs: number
}

/** What the work waits for. */
export type WorkRequest =
  | { readonly kind: 'sleep'; readonly key: string; readonly fingerprint: string; readonly ms: number }
  | CallRequest

export interface CallRequest {
  readonly kind: 'call'
  readonly key: string
  readonly fingerprint: string
  readonly tool: string
  readonly args: Json
  readonly effect: EffectClass
  /** Longest time of the call on a worker. */
  readonly runMs: number
  readonly timeoutMs?: number
}

/** What the local activity gets that brings the work as far as it comes; it is in no history. */
export interface AdvanceInput {
  /** The work itself, when its journal is given from the beginning. */
  readonly start?: { readonly work: WorkDocument; readonly startedMs: number }
  /** The part of the journal that follows its first `from` entries. */
  readonly from: number
  readonly entries: readonly JournalEntry[]
  /** Requests that are being performed. */
  readonly running: readonly string[]
  /** Ends the work: it gets no further outcome. */
  readonly stop?: 'cancelled' | 'timeout'
}

export type AdvanceAnswer =
  | { readonly kind: 'waits'; readonly made: readonly JournalEntry[]; readonly requests: readonly WorkRequest[] }
  | { readonly kind: 'end'; readonly end: JsonObject }
  /** This worker does not have the beginning of the journal. */
  | { readonly kind: 'missing' }

/** What an activity named after a tool gets. */
export interface CallInput {
  readonly id: string
  readonly identity: Identity
  readonly heartbeatMs: number
  readonly request: CallRequest
  readonly decision?: ApprovalDecision
}

export type CallAnswer =
  | { readonly kind: 'result'; readonly of: string; readonly result: Result }
  | { readonly kind: 'asks'; readonly of: string; readonly approval: AskedApproval }

/** A call that waits for a decision, as approvers see it. */
export interface AskedApproval {
  /** Changes with the call: a decision is on what was shown. */
  readonly approvalId: string
  readonly callId: string
  readonly tool: string
  readonly principal: string
  readonly tenant: string
  readonly reason: string
  readonly shown: JsonObject
  readonly approvers?: readonly string[]
  readonly expiresMs: number
}

export interface ApprovalDecision {
  readonly approvalId: string
  readonly approved: boolean
  readonly by: string
  readonly reason?: string
}

export const workWorkflow = 'gantryWork'
export const advanceActivity = 'gantry.advance'
export const approvalsQuery = 'gantry.approvals'
export const decideSignal = 'gantry.decide'

/** The error of a call whose worker was lost. */
export function lostError(tool: string): ErrorInfo {
  return {
    code: 'OUTCOME_UNKNOWN',
    message: `The worker that ran ${tool} was lost, and the outcome of the call is unknown.`,
    stage: 'execute',
    retryable: false,
    effect: 'possible',
  }
}
