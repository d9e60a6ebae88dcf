import type { Readable } from 'node:stream'
import type { ArtifactRef, ChainResult, ErrorInfo, Identity, Json, Result, StreamEvent } from '@gantry/contract'
import type { CircuitControl, Executor, RuntimeInfo } from '@gantry/core'
import type { CallState } from '../stores/call-store.ts'

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
  readonly priority: number
  readonly createdAt: string
  readonly startedAt?: string
  readonly finishedAt?: string
  readonly attempts: number
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

/** Whether the parts work, from what they did last rather than from what they say. */
export interface Readiness {
  readonly ready: boolean
  /** One sentence for each part that is not. */
  readonly problems: readonly string[]
}

/**
 * What the doors of the service (HTTP now, MCP later) can ask of it. Everything is of the identity's tenant; what
 * belongs to another one is NOT_FOUND.
 * - Errors: every method rejects with ToolError.
 */
export interface Service {
  /** Checks a call, keeps it durably and answers where it is; a repeat of the same key answers the first one. */
  submit(input: CallInput, identity: Identity): Promise<{ readonly callId: string; readonly repeated: boolean }>
  /** The outcome once there is one; undefined when there is none after `waitMs`. */
  wait(
    callId: string,
    identity: Identity,
    waitMs: number,
    signal: AbortSignal,
  ): Promise<Result | ChainResult | undefined>
  call(callId: string, identity: Identity): Promise<CallView>
  calls(
    query: PageQuery & { readonly state?: string; readonly tool?: string },
    identity: Identity,
  ): Promise<Paged<CallView>>
  /** Events after the given id, as they come, up to the end of the call. Rejects at once with NOT_FOUND. */
  events(callId: string, afterId: number, identity: Identity, signal: AbortSignal): Promise<AsyncIterable<StreamEvent>>
  cancel(callId: string, identity: Identity): Promise<CallView>
  deadLetters(query: PageQuery, identity: Identity): Promise<Paged<DeadLetter>>
  deadLetter(id: string, identity: Identity): Promise<DeadLetter>
  /** Hands the call in again, as its first caller, under a new id; a second redrive answers the same new call. */
  redrive(id: string, identity: Identity): Promise<{ readonly callId: string }>
  discard(id: string, identity: Identity): Promise<void>
  artifact(
    id: string,
    range: { readonly start: number; readonly end?: number } | undefined,
    identity: Identity,
    signal: AbortSignal,
  ): Promise<{
    readonly artifact: ArtifactRef
    readonly start: number
    readonly end: number
    readonly content: Readable
  }>
  workers(): Promise<readonly WorkerView[]>
  runtimes(): Promise<readonly RuntimeInfo[]>
  readonly circuits: CircuitControl
  /** The executor of the present configuration, for discovery. */
  readonly executor: Pick<Executor, 'search' | 'describe' | 'tools' | 'catalog'>
  ready(): Promise<Readiness>
  /** Metrics in Prometheus text form. */
  metrics(): Promise<{ readonly type: string; readonly text: string }>
}

/** An error as every door shows it. */
export interface ErrorBody {
  readonly error: ErrorInfo
}
