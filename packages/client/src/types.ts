import type {
  ChainResult,
  Deprecation,
  EffectClass,
  Json,
  JsonSchema,
  Result,
  ResultStatus,
  StreamEvent,
  ToolAnnotations,
  ToolExample,
  Warning,
} from '@gantry/contract'

/** Where a call is: on its way, or how it ended. */
export type CallState = 'queued' | 'delayed' | 'asked' | 'running' | ResultStatus

/** Where a call stands. */
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

/** What running a recorded call again, without any of its tools, came to. */
export interface Replay {
  readonly callId: string
  readonly kind: 'call' | 'chain'
  readonly tool: string
  /** What the policy of today says of it; `none` when it was not asked, because the tool is gone or the input does not fit. */
  readonly decision: 'allow' | 'ask' | 'deny' | 'unavailable' | 'none'
  /** Whether the outcome would be the same, as far as the record tells. */
  readonly same: boolean
  /** Where the outcomes differ, by JSON Pointer; what is absent from one of them is left out. */
  readonly differences: readonly { readonly path: string; readonly before?: Json; readonly after?: Json }[]
  /** Where it ended because what came next is not on record. */
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

/** What could not be done and waits for a person. */
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

/** A key of the API, without what lets it in. */
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
  /** The key in whose place it came. */
  readonly replaces?: string
}

/** Who works, as last heard. */
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

/** The circuit breaker of a tool at a backend; times are milliseconds since 1970. */
export interface CircuitView {
  readonly key: string
  readonly state: 'closed' | 'open' | 'trial'
  readonly since: number
  readonly calls: number
  readonly failures: number
  readonly openMs: number
  /** While it is open. */
  readonly retryAt?: number
}

/** A runtime for programs, as `gantry doctor` shows it. */
export interface RuntimeView {
  readonly kind: string
  readonly available: boolean
  readonly isolation: string
  readonly version: string | null
  readonly startMs: number | null
  readonly limits: { readonly [limit: string]: string }
  readonly languages: readonly string[]
  readonly attacks: readonly string[]
  readonly breached: readonly string[]
  /** Why it is not available, and what to do. */
  readonly reason?: string
  readonly remedy?: string
}

/** A tool as search shows it. */
export interface FoundTool {
  readonly id: string
  readonly version: string
  readonly title?: string
  readonly description: string
  readonly tags: readonly string[]
  readonly score: number
}

/** A tool as a list shows it. */
export interface ListedTool {
  readonly id: string
  readonly version: string
  readonly title?: string
  readonly description: string
  readonly tags: readonly string[]
  readonly effect: EffectClass
  readonly deprecated?: Deprecation
  readonly digest: string
}

/** Documentation of one tool; the level decides which parts are there. */
export interface ToolDoc {
  readonly id: string
  readonly version: string
  readonly title?: string
  readonly summary: string
  readonly tags?: readonly string[]
  readonly effect: EffectClass
  readonly deprecated?: Deprecation
  readonly digest?: string
  readonly inputSchema?: JsonSchema
  readonly outputSchema?: JsonSchema
  readonly required?: readonly string[]
  readonly defaults?: { readonly [argument: string]: Json }
  readonly description?: string
  readonly annotations?: ToolAnnotations
  readonly docs?: string
  readonly examples?: readonly ToolExample[]
  readonly permissions?: readonly string[]
  readonly versions?: readonly string[]
  /** Parts that the budget had no room for. */
  readonly omitted: readonly (keyof ToolDoc)[]
}

/** One version of a tool in the catalog. */
export interface CatalogTool {
  readonly id: string
  readonly version: string
  readonly digest: string
  readonly effect: string
  readonly source: string
}

/** One page; `cursor` is there when more follows. */
export interface Paged<T> {
  readonly items: readonly T[]
  readonly cursor?: string
}

/** What a search found. */
export interface FoundPage extends Paged<FoundTool> {
  /** The answer is good, but something is missing from it. */
  readonly warning?: Warning
}

export interface CatalogPage extends Paged<CatalogTool> {
  /** The same as long as nothing changes of what the caller may use. */
  readonly hash: string
}
