import type { JsonObject } from './json.ts'

/** W3C trace context, passed on unread. */
export interface TraceContext {
  readonly traceparent: string
  readonly tracestate?: string
}

/** One tool call as it crosses a process. Identity is never read from it. */
export interface Call {
  readonly callId: string
  /** `namespace:name`, with a version, a range (`^1`) or neither. */
  readonly tool: string
  readonly args: JsonObject
  readonly idempotencyKey?: string
  /** Digest of the tool the caller saw; another one is CATALOG_STALE. */
  readonly schemaDigest?: string
  /** Key of an authenticated session record; not an identity by itself. */
  readonly session?: string
  readonly priority?: number
  /** ISO time after which the call is worthless. */
  readonly deadline?: string
  readonly replyTo?: string
  readonly trace?: TraceContext
}

/** The caller, as established by the host, never by the message. */
export interface Identity {
  readonly principal: string
  readonly tenant: string
  /** Exact names, `prefix:*`, or `*` for all. */
  readonly permissions: readonly string[]
  readonly roles?: readonly string[]
  /** Only tools that match one of these patterns (`ns:*`, `ns:name`) are visible to the identity; all when absent. */
  readonly tools?: readonly string[]
}
