import type { ChainResult } from './chain.ts'
import type { Json } from './json.ts'
import type { ArtifactRef, Result, ResultStatus, StreamEvent, Warning } from './result.ts'

/** Where a call is: on its way, or how it ended. */
export type CallState = 'queued' | 'delayed' | 'asked' | 'running' | ResultStatus

/** What a call is: of one tool, a chain, or a program over tools. */
export type CallKind = 'call' | 'chain' | 'code'

/** The state of a call. */
export interface CallView {
  readonly callId: string
  readonly kind: CallKind
  readonly tool: string
  readonly state: CallState
  readonly principal: string
  /** While it waits or runs. */
  readonly priority?: number
  readonly createdAt: string
  readonly startedAt?: string
  readonly finishedAt?: string
  /** How often it was handed to a worker. */
  readonly attempts: number
  /** Its arguments, or its chain, without secrets; only when requested by id, by its principal or an operator. */
  readonly args?: Json
  /** Its last reports while it runs, oldest first; only when requested by id. */
  readonly recent?: readonly StreamEvent[]
  /** Once it has ended. */
  readonly result?: Result | ChainResult
}

/** What running a recorded call again, without any of its tools, came to. */
export interface Replay {
  readonly callId: string
  readonly kind: CallKind
  readonly tool: string
  /** The decision of the current policy; `none` when it was not evaluated, because the tool was removed or the input is invalid. */
  readonly decision: 'allow' | 'ask' | 'deny' | 'unavailable' | 'none'
  /** Whether the outcome would be the same, as far as the record shows. */
  readonly same: boolean
  /** Where the outcomes differ, by JSON Pointer; what is absent from one of them is left out. */
  readonly differences: readonly { readonly path: string; readonly before?: Json; readonly after?: Json }[]
  /** The step at which the replay ended, because the journal has no result for it. */
  readonly divergence?: { readonly step?: string; readonly tool: string; readonly reason: string }
  readonly result: Result | ChainResult
  readonly warnings: readonly Warning[]
}

/** A question to a person: whether a call may be made. */
export interface ApprovalView {
  readonly id: string
  /** `void`: its call ended without it. */
  readonly state: 'open' | 'approved' | 'denied' | 'expired' | 'void'
  /** The call that waits. */
  readonly callId: string
  /** The inner call that needs the approval, if the call is a chain. */
  readonly innerId?: string
  readonly tool: string
  /** The caller. */
  readonly principal: string
  readonly reason: string
  /**
   * Exactly what will run, but for known secrets and members that the tool declares as secret, which `hidden` lists; only
   * when one is asked for by id. What is long is shown in part unless all is asked for, and `truncated` lists them.
   */
  readonly args?: Json
  /** Of the arguments as JSON in UTF-8. */
  readonly argsBytes: number
  /** Of the same JSON. */
  readonly argsSha256?: string
  /** JSON Pointers to what is hidden in the arguments; the text there says how long it is and has a digest. */
  readonly hidden?: readonly string[]
  /** JSON Pointers to truncated values; the empty one means that arguments are omitted. */
  readonly truncated?: readonly string[]
  /** What a reader of the arguments could miss. */
  readonly notes?: readonly ApprovalNote[]
  /** How many notes are left out because there are too many of their kind. */
  readonly notesOmitted?: number
  /** The files that the arguments name by their ids, as they were when the approval was requested; only of one by its id. */
  readonly files?: readonly ApprovalFile[]
  /** Hash of the tool, its definition, the arguments with their files, and the caller: a decision is about these alone. */
  readonly fingerprint: string
  /** Roles that may decide, in addition to principals with `gantry:approve`. */
  readonly approvers: readonly string[]
  readonly askedAt: string
  readonly expiresAt: string
  readonly decided?: {
    readonly by: string
    readonly at: string
    readonly why?: string
    /** Of a decision on a call of one's own: by which right. */
    readonly as?: 'owner'
  }
  /** Whether the webhook of approvals has its message; only when one is asked for by id by a principal that may decide. */
  readonly webhook?: {
    readonly state: 'waiting' | 'sent' | 'failed'
    readonly tries: number
    /** Why the last try failed. */
    readonly error?: string
  }
}

/** The body of a message to the webhook of approvals. Text of callers is in `approval` alone, as JSON. */
export interface ApprovalMessage {
  readonly type: 'approval.requested' | 'approval.approved' | 'approval.denied' | 'approval.expired'
  readonly tenant: string
  /** As an approver sees it, with its arguments, at the moment of sending. */
  readonly approval: ApprovalView
  /** Command lines to see and decide it, while it is open. */
  readonly commands?: { readonly show: string; readonly approve: string; readonly deny: string }
  /** Where a person can decide, when `approvals.link` is configured. */
  readonly link?: string
}

/** A file that arguments name by its id. Only the content of this digest runs; without a digest there is no such file. */
export interface ApprovalFile extends Pick<ArtifactRef, 'id'>, Partial<Omit<ArtifactRef, 'id'>> {
  /** JSON Pointer to the id. */
  readonly path: string
}

/** What a reader of arguments could miss: where a URL leads, and characters that do not show. */
export type ApprovalNote =
  | {
      readonly kind: 'url'
      /** JSON Pointer. */
      readonly path: string
      /** The host that is dialled. */
      readonly host: string
      /** The URL as it is dialled. */
      readonly url: string
      /** Name and password in it. */
      readonly userinfo?: string
    }
  | {
      readonly kind: 'invisible'
      readonly path: string
      /** Each with its code point and how often it is there: `U+202E ×2`. */
      readonly characters: readonly string[]
    }

/** What could not be done and waits for a person. */
export interface DeadLetter {
  readonly id: string
  readonly callId?: string
  readonly source: string
  readonly reason: string
  readonly code: string
  readonly tool?: string
  /**
   * What was asked for, as far as it could be read and without what its keys say is secret; only when one is asked for
   * by id, by an identity that holds `gantry:operate`.
   */
  readonly payload?: Json
  readonly deliveries: number
  readonly createdAt: string
  readonly redriven?: { readonly at: string; readonly by: string; readonly callId: string }
  readonly discarded?: { readonly at: string; readonly by: string }
}

/** A key of the API, without its secret. */
export interface KeyView {
  readonly id: string
  /** A bearer key is sent with each request; a signing key never leaves its owner. */
  readonly kind: 'bearer' | 'signing'
  readonly name: string
  readonly tenant: string
  readonly principal: string
  readonly permissions: readonly string[]
  readonly roles: readonly string[]
  readonly tools?: readonly string[]
  readonly state: 'live' | 'expired' | 'revoked'
  readonly createdAt: string
  readonly createdBy: string
  readonly expiresAt: string
  readonly revokedAt?: string
  /** Within a minute or two. */
  readonly lastUsedAt?: string
  /** The key that it replaces. */
  readonly replaces?: string
}

/** A worker, as of its last heartbeat. */
export interface WorkerView {
  readonly worker: string
  readonly host: string
  readonly pid: number
  readonly roles: readonly string[]
  readonly slots: number
  readonly running: number
  /** `lost`: it has had no heartbeat for longer than its lease, which is at least 15 s here. */
  readonly state: 'starting' | 'ready' | 'draining' | 'lost'
  readonly startedAt: string
  readonly seenAt: string
  /** What differs from the process that answers although it must be equal: `api_key`, `callback_key`, … */
  readonly differs?: readonly string[]
}

/** Whether a dependency of the process that answers works: `database`, `spool`, `artifacts`, or a broker by its name. */
export interface DependencyView {
  readonly dependency: string
  readonly up: boolean
  /** While it is down: since when, of the process's clock, and why. */
  readonly since?: string
  readonly reason?: string
}

/** A call that ended and whose outcome is held in memory, because neither the database nor the spool takes it. */
export interface UnrecordedView {
  readonly callId: string
  readonly tool: string
  readonly tenant: string
  /** When it could not be recorded for the first time, of the worker's clock. */
  readonly since: string
  readonly tries: number
  /** Why the last try failed. */
  readonly reason: string
}

/** What the process that answers knows of itself, from memory alone. */
export interface HealthView {
  readonly worker: string
  readonly ready: boolean
  readonly problems: readonly string[]
  readonly notes: readonly string[]
  readonly dependencies: readonly DependencyView[]
  readonly unrecorded: readonly UnrecordedView[]
}

/** One page; `cursor` is present when more items follow. */
export interface Paged<T> {
  readonly items: readonly T[]
  readonly cursor?: string
}

/** A row of the audit record. */
export interface AuditView {
  readonly seq: number
  readonly at: string
  readonly tenant: string
  readonly principal: string
  /** The call or other object of the action. */
  readonly callId: string
  /** `start`, `intent`, `end`, `lost`, `released`; `refused`; `admin`, `redrive`, `discard`. */
  readonly phase: string
  /** The tool or the action. */
  readonly tool: string
  readonly fence: number
  readonly worker?: string
  readonly status?: string
  readonly code?: string
  /** The version of the configuration, with its policy, that decided. */
  readonly config?: string
  readonly details?: Json
}

/** Something that is not as it was sealed, and where. */
export interface AuditFinding {
  readonly what: 'changed' | 'missing' | 'inserted' | 'order' | 'seal' | 'chain' | 'key' | 'unproven' | 'head'
  readonly seq?: number
  readonly seal?: number
  readonly message: string
}

/** Whether the audit record is as it was sealed. */
export interface AuditVerdict {
  readonly ok: boolean
  readonly seals: number
  readonly rows: number
  /** Rows at the end that are not sealed yet. */
  readonly unsealed: number
  /** The last seal, as `number:hash`. Stored elsewhere, it proves later that the end was not truncated. */
  readonly head?: string
  /** The last seal that the retention removed, and whether a key proves it. */
  readonly retired?: { readonly seal: number; readonly uptoSeq: number; readonly at: string; readonly proven: boolean }
  /** The first hundred. */
  readonly findings: readonly AuditFinding[]
  readonly findingsTotal: number
}
