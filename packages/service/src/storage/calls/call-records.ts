import type { ErrorCode, ResultStatus } from '@gantry/contract'
import type { Holder } from './call-store.ts'

/** The stored outcome of a call. */
export interface StoredResult extends Holder {
  readonly status: ResultStatus
  readonly code?: ErrorCode
  readonly text?: string
  readonly ref?: string
  readonly bytes: number
}

/** The end of one lease. */
export interface StoredAttempt extends Holder {
  readonly worker: string
  readonly outcome: ResultStatus | 'lost' | 'released'
}

/** An entry of the audit log: a start for each claim, and one of the other phases for each start. */
export interface StoredAudit extends Holder {
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

/** An item of the outbox. */
export interface StoredMessage {
  readonly callId: string
  readonly tenant: string
  readonly kind: 'callback' | 'reply'
  readonly target: string
}

/** The dead letter of a call; it has the id of the call, because a call ends once. */
export interface StoredDeadLetter {
  readonly id: string
  readonly tenant: string
  readonly callId: string
  readonly source: 'call'
  readonly reason: string
  readonly code: ErrorCode
  readonly tool: string
  readonly deliveries: number
}

/** The records of a store other than live calls, in the order in which they were written. */
export interface CallRecords {
  readonly results: readonly StoredResult[]
  readonly attempts: readonly StoredAttempt[]
  readonly audit: readonly StoredAudit[]
  readonly outbox: readonly StoredMessage[]
  readonly deadLetters: readonly StoredDeadLetter[]
}
