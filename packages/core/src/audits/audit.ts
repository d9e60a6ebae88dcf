import type { ErrorCode, Isolation, Json, OutcomeClass, Result, ResultStatus } from '@gantry/contract'

/** Written before a tool starts. */
export interface AuditStart {
  readonly phase: 'start'
  /** When the call was submitted. */
  readonly at: string
  readonly callId: string
  /** The call that made this one: of a tool that calls tools, or of a program. */
  readonly parent?: string
  readonly tool: string
  readonly principal: string
  readonly tenant: string
  /**
   * Digest of the definition that runs. Like the arguments, only for tools that declare permissions or need approval, and
   * for calls that run a program or a command.
   */
  readonly digest?: string
  /**
   * Redacted. For a call that runs a program they are exact except for known secrets and members that the tool declares as
   * secret; for other calls, members with a secret-like key are redacted too. A redaction mark holds length and digest.
   */
  readonly args?: Json
  /** Replaces large `args` when the host stores files: the artifact with the same JSON, and its SHA-256. */
  readonly argsFile?: { readonly artifact: string; readonly bytes: number; readonly sha256: string }
  /** JSON Pointers to the redacted arguments of a program; the first hundred. */
  readonly hidden?: readonly string[]
  readonly approvedBy?: string
  /** The caller approved its own call, by this right. */
  readonly approvedSelf?: 'owner'
  /** The confinement that the definition and the policy require for a program; AuditEnd has the runtime that was used. */
  readonly confinement?: {
    /** Kind of the backend. */
    readonly backend: string
    readonly profile?: string
    readonly runtime?: string
    readonly floor?: Isolation
  }
}

/** Written when a call has its outcome, including refused calls. */
export interface AuditEnd {
  readonly phase: 'end'
  readonly at: string
  readonly callId: string
  /** The call that made this one: of a tool that calls tools, or of a program. */
  readonly parent?: string
  /** The requested id when no tool was found. */
  readonly tool: string
  readonly principal: string
  readonly tenant: string
  readonly status: ResultStatus
  /** The status, with `exception` for a failure that the tool threw instead of reporting it. */
  readonly outcome: OutcomeClass
  readonly code?: ErrorCode
  /** For a denied call, the reason that the caller received. */
  readonly reason?: string
  readonly attempts: number
  readonly durationMs: number
  /** The runtime and isolation of a program. */
  readonly runtime?: NonNullable<Result['runtime']>
  /** Where the tool threw: file, line and column. */
  readonly thrownAt?: string
}

export type AuditRecord = AuditStart | AuditEnd

/**
 * The audit log: the record of intent and outcome of each call; not a logger.
 * - Order: the start is durable before the tool starts, the end before the caller receives the outcome.
 * - Concurrency: any number of writes at once.
 * - Errors: a failed start refuses the call (AUDIT_UNAVAILABLE); a failed end becomes a warning on the result.
 */
export interface Audit {
  write(record: AuditRecord): void | Promise<void>
}
