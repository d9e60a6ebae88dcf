import type { ErrorCode, Isolation, Json, OutcomeClass, Result, ResultStatus } from '@gantry/contract'

/** Said before a tool starts. */
export interface AuditStart {
  readonly phase: 'start'
  /** When the call came in. */
  readonly at: string
  readonly callId: string
  /** The call that made this one: of a tool that calls tools, or of a program. */
  readonly parent?: string
  readonly tool: string
  readonly principal: string
  readonly tenant: string
  /**
   * Of the definition that ran; like the arguments only for tools that declare permissions or need approval, and for calls
   * that run a program or a command.
   */
  readonly digest?: string
  /**
   * Without secrets. Of a call that runs a program they are exact but for known secrets and members that the tool declares
   * as secret; of others what looks like a secret is hidden too. What is hidden has its length and a digest in its place.
   */
  readonly args?: Json
  /** Instead of `args` when they are large and the host keeps files: the artifact with the same JSON, and its SHA-256. */
  readonly argsFile?: { readonly artifact: string; readonly bytes: number; readonly sha256: string }
  /** JSON Pointers to what is hidden in the arguments of a program; the first hundred. */
  readonly hidden?: readonly string[]
  readonly approvedBy?: string
  /** The caller approved its own call, by this right. */
  readonly approvedSelf?: 'owner'
  /** What the definition and the policy demand of the sandbox of a program; the runtime that was used is in the end. */
  readonly confinement?: {
    /** Kind of the backend. */
    readonly backend: string
    readonly profile?: string
    readonly runtime?: string
    readonly floor?: Isolation
  }
}

/** Said when a call has its outcome, refused calls included. */
export interface AuditEnd {
  readonly phase: 'end'
  readonly at: string
  readonly callId: string
  /** The call that made this one: of a tool that calls tools, or of a program. */
  readonly parent?: string
  /** As asked for, when no tool was found. */
  readonly tool: string
  readonly principal: string
  readonly tenant: string
  readonly status: ResultStatus
  /** The status, with `exception` for a failure that the tool threw instead of reporting it. */
  readonly outcome: OutcomeClass
  readonly code?: ErrorCode
  /** Of a call that was denied, why, as its caller was told. */
  readonly reason?: string
  readonly attempts: number
  readonly durationMs: number
  /** Where a program ran, and what stood between it and the host. */
  readonly runtime?: NonNullable<Result['runtime']>
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
