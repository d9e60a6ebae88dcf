import type { ErrorCode, ResultStatus } from '@gantry/contract'
import type { Holder } from './call-store.ts'

/** The one outcome of a call, as it is kept. */
export interface KeptResult extends Holder {
  readonly status: ResultStatus
  readonly code?: ErrorCode
  readonly text?: string
  readonly ref?: string
  readonly bytes: number
}

/** How one holder parted from a call. */
export interface KeptAttempt extends Holder {
  readonly worker: string
  readonly outcome: ResultStatus | 'lost' | 'released'
}

/** One line of the audit record: a start for each claim, and for each start one of the others. */
export interface KeptAudit extends Holder {
  readonly phase: 'start' | 'end' | 'lost' | 'released'
  readonly tenant: string
  readonly principal: string
  readonly tool: string
  /** Absent when the store itself ended the call. */
  readonly worker?: string
  readonly status?: ResultStatus
  readonly code?: ErrorCode
  readonly config?: string
}

/** Something to be sent. */
export interface KeptMessage {
  readonly callId: string
  readonly tenant: string
  readonly kind: 'callback' | 'reply'
  readonly target: string
}

/** A call that was given up; its id is the letter's, because a call ends once. */
export interface KeptLetter {
  readonly id: string
  readonly tenant: string
  readonly callId: string
  readonly source: 'call'
  readonly reason: string
  readonly code: ErrorCode
  readonly tool: string
  readonly deliveries: number
}

/** What a store has on record beside the calls that are live, in the order in which it was written. */
export interface CallRecords {
  readonly results: readonly KeptResult[]
  readonly attempts: readonly KeptAttempt[]
  readonly audit: readonly KeptAudit[]
  readonly outbox: readonly KeptMessage[]
  readonly deadLetters: readonly KeptLetter[]
}
