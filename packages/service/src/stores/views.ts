import type { ChainResult, Json, Result, StreamEvent } from '@gantry/contract'
import type { CallState } from './call-store.ts'

/** A call as a door hands it in; everything in it is as hostile as its sender. */
export interface CallInput {
  readonly kind: 'call' | 'chain'
  /** `namespace:name`, with a version, a range or neither; absent for a chain. */
  readonly tool?: string
  /** The arguments, or `{ steps, input }` of a chain. */
  readonly args: unknown
  readonly idempotencyKey?: string
  readonly schemaDigest?: string
  readonly priority?: number
  readonly timeoutMs?: number
  /** Not before this much time has passed. */
  readonly delayMs?: number
  /** ISO time after which the call is worthless. */
  readonly deadline?: string
  readonly callback?: string
  readonly traceparent?: string
}

/** Where a call stands, for those who may see it. */
export interface CallView {
  readonly callId: string
  readonly kind: 'call' | 'chain'
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
  /** What it reported last, oldest first, while it runs; only when one is asked for by id. */
  readonly recent?: readonly StreamEvent[]
  /** Once it has ended. */
  readonly result?: Result | ChainResult
}

export interface DeadLetter {
  readonly id: string
  readonly callId?: string
  readonly source: string
  readonly reason: string
  readonly code: string
  readonly tool?: string
  /** What was asked for, as far as it could be read; only when one is asked for by id. */
  readonly payload?: Json
  readonly deliveries: number
  readonly createdAt: string
  readonly redriven?: { readonly at: string; readonly by: string; readonly callId: string }
  readonly discarded?: { readonly at: string; readonly by: string }
}

/** A question to a person: whether a call may be made. */
export interface ApprovalView {
  readonly id: string
  /** `void`: its call ended without it. */
  readonly state: 'open' | 'approved' | 'denied' | 'expired' | 'void'
  /** The call that waits. */
  readonly callId: string
  /** The call that is asked about, when it is one inside a chain. */
  readonly innerId?: string
  readonly tool: string
  /** Who makes the call. */
  readonly principal: string
  readonly reason: string
  /** Without what their keys say is secret; only when one is asked for by id, and absent when they are too long. */
  readonly args?: Json
  readonly argsBytes: number
  /** Hash of the tool, its definition, the arguments and the caller: a decision is about these and nothing else. */
  readonly fingerprint: string
  /** Roles that may decide, besides those who hold `gantry:approve`. */
  readonly approvers: readonly string[]
  readonly askedAt: string
  readonly expiresAt: string
  readonly decided?: { readonly by: string; readonly at: string; readonly why?: string }
}

export interface WorkerView {
  readonly worker: string
  readonly host: string
  readonly pid: number
  readonly roles: readonly string[]
  readonly slots: number
  readonly running: number
  readonly state: 'starting' | 'ready' | 'draining' | 'gone'
  readonly startedAt: string
  readonly seenAt: string
}

export interface Paged<T> {
  readonly items: readonly T[]
  readonly cursor?: string
}

export interface PageQuery {
  readonly limit?: number
  readonly cursor?: string
}
