import type { ErrorCode, Json, ResultStatus } from '@gantry/contract'

/** Said before a tool starts. */
export interface AuditStart {
  readonly phase: 'start'
  /** When the call came in. */
  readonly at: string
  readonly callId: string
  readonly tool: string
  readonly principal: string
  readonly tenant: string
  /** Of the definition that ran; like the arguments only for tools that declare permissions or need approval. */
  readonly digest?: string
  /** Redacted. */
  readonly args?: Json
  readonly approvedBy?: string
}

/** Said when a call has its outcome, refused calls included. */
export interface AuditEnd {
  readonly phase: 'end'
  readonly at: string
  readonly callId: string
  /** As asked for, when no tool was found. */
  readonly tool: string
  readonly principal: string
  readonly tenant: string
  readonly status: ResultStatus
  readonly code?: ErrorCode
  /** Of a call that was denied, why, as its caller was told. */
  readonly reason?: string
  readonly attempts: number
  readonly durationMs: number
}

export type AuditRecord = AuditStart | AuditEnd

/**
 * The record of intent and outcome; not a logger.
 * - Order: a call's start is durable before its tool starts, its end before the caller has the outcome.
 * - Concurrency: any number of writes at once.
 * - Errors: a failed start refuses the call (AUDIT_UNAVAILABLE); a failed end becomes a warning on the result.
 */
export interface Audit {
  write(record: AuditRecord): void | Promise<void>
}
