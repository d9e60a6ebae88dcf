import type { Json, JsonObject, JsonSchema } from './json.ts'

/**
 * What may happen to a call whose worker died.
 * `read`: run again. `keyed`: run again with the same downstream key. `reconcilable`: ask `lookup(key)` first.
 * `once`: never again, the outcome is unknown. `repeatable`: the caller accepts repeats.
 */
export type EffectClass = 'read' | 'keyed' | 'reconcilable' | 'once' | 'repeatable'

/** Hints of an MCP tool about itself: shown, never trusted. */
export interface ToolAnnotations {
  readonly title?: string
  readonly readOnlyHint?: boolean
  readonly destructiveHint?: boolean
  readonly idempotentHint?: boolean
  readonly openWorldHint?: boolean
}

export interface ToolIcon {
  readonly src: string
  readonly mimeType?: string
  readonly sizes?: readonly string[]
}

/** One worked use of a tool. */
export interface ToolExample {
  readonly title: string
  readonly description?: string
  readonly args: JsonObject
  readonly output?: Json
}

/** How a call reaches the tool: a backend's kind, its name when there are several, and what that backend needs. */
export interface BackendBinding {
  readonly kind: string
  readonly name?: string
  readonly [option: string]: unknown
}

/** Ceilings for one call; absent means the executor's default. */
export interface CallLimits {
  readonly argsBytes?: number
  readonly argsDepth?: number
  readonly resultBytes?: number
  readonly resultDepth?: number
}

/** When a failed attempt is tried again; the effect class decides whether it may be. */
export interface RetryRule {
  /** Attempts in all, the first included. */
  readonly attempts: number
  readonly delayMs?: number
  readonly maxDelayMs?: number
}

/** `fail`: CIRCUIT_OPEN at once, with the time after which to try again. `wait`: until the circuit lets the call through. */
export type OnCircuitOpen = 'fail' | 'wait'

export interface Deprecation {
  readonly message: string
  /** Id of the tool to use instead. */
  readonly replacement?: string
}

/** A tool as the catalog holds it: an MCP tool, where it lives and how it may run. All of it is JSON. */
export interface Tool {
  readonly namespace: string
  readonly name: string
  readonly version: string
  readonly title?: string
  readonly description: string
  readonly inputSchema: JsonSchema
  readonly outputSchema?: JsonSchema
  readonly annotations?: ToolAnnotations
  readonly icons?: readonly ToolIcon[]
  readonly tags?: readonly string[]
  /** Longer notes in Markdown, for the `full` documentation level. */
  readonly docs?: string
  readonly examples?: readonly ToolExample[]
  readonly deprecated?: Deprecation
  /** Other ids (`namespace:name`) that find this tool. */
  readonly aliases?: readonly string[]
  readonly backends: readonly BackendBinding[]
  readonly effect: EffectClass
  /** `strict` makes output that does not fit the schema a failure; `warn`, the default, keeps it with a warning. */
  readonly output?: 'warn' | 'strict'
  readonly timeoutMs?: number
  readonly limits?: CallLimits
  readonly permissions?: readonly string[]
  readonly secrets?: readonly string[]
  readonly egress?: readonly string[]
  readonly profile?: string
  readonly runtime?: string
  /** Calls with the same key do not run more than `concurrency` at a time; the tool id is the default key. */
  readonly concurrencyKey?: string
  readonly concurrency?: number
  readonly retry?: RetryRule
  /** False for a tool whose failures open no circuit. */
  readonly breaker?: boolean
  /** What becomes of a call while its circuit is open: it fails at once, the default, or waits within its time. */
  readonly onCircuitOpen?: OnCircuitOpen
  readonly approval?: 'never' | 'always'
  readonly placement?: { readonly [label: string]: string }
  /**
   * `false`: a gateway that waits for this tool waits until it has ended, however long that takes. Else it may get an
   * interim answer with the id of a background task, and the result later.
   */
  readonly background?: boolean
  /** Units that a call takes of the budgets of its tenant and its caller; none when absent. */
  readonly cost?: number
  /** Of a `read` tool: its results may be kept for so long, and given to the same caller, or to everybody of the tenant. */
  readonly cache?: { readonly ttlMs: number; readonly scope?: 'principal' | 'tenant' }
}
