import type { Identity, Json, JsonObject, LogLevel, Tool } from '@gantry/contract'

/** One progress report, when the positional form does not fit. */
export interface ProgressReport {
  readonly progress: number
  readonly total?: number
  readonly message?: string
}

/**
 * What a tool sees of the call it serves. Its functions may be taken off and passed on.
 * After the call has ended, reports are ignored and `signal` is aborted if anyone asked for it.
 */
export interface ToolContext {
  readonly callId: string
  /** Id of the tool that runs, with its version. */
  readonly tool: string
  readonly identity: Identity
  /** Stable over attempts; pass it downstream. The call id when the caller gave none. */
  readonly idempotencyKey: string
  /** 1 for the first attempt. */
  readonly attempt: number
  /** Aborted on cancel, timeout and when the caller goes away; its reason says which. */
  readonly signal: AbortSignal
  /** Only the secrets the tool declares. */
  readonly secrets: { readonly [name: string]: string }
  progress(progress: number | ProgressReport, total?: number, message?: string): void
  log(message: string, data?: Json): void
  log(level: LogLevel, message: string, data?: Json): void
  /** Sends a message to the caller's world while the tool runs; it is kept as an effect of the result. */
  send(message: Json): void
}

/** Fields of a tool that confine it where it runs. */
export type Demand = 'profile' | 'runtime' | 'egress'

/** A call that passed lookup, validation and policy. */
export interface BackendCall {
  readonly id: string
  readonly tool: Tool
  readonly args: JsonObject
  /** The binding of the tool that chose this backend. */
  readonly binding: { readonly [option: string]: unknown }
}

/**
 * How a resolved call reaches the thing that does the work.
 * - It never validates, retries, redacts or logs: the pipeline does.
 * - Concurrency: `call` may run any number of times at once.
 * - Cancellation: it should stop on `context.signal`; the pipeline ends the call on time whether it does or not.
 * - Errors: a rejection becomes the `cause` of BACKEND_FAILED; a ToolError keeps its code. Throw BACKEND_UNAVAILABLE
 *   only when the tool certainly did not start.
 * - Ownership: the arguments are the backend's own copy; the executor closes the backends it was given.
 */
export interface Backend {
  /** As written in a tool's binding: `local`, `http`, `mcp`. */
  readonly kind: string
  readonly name: string
  /** What of a tool's demands this backend holds it to; a tool with another demand is refused, never run without it. */
  readonly enforces?: readonly Demand[]
  /** Returns the raw output, a promise of it, or an async generator whose values are chunks. */
  call(call: BackendCall, context: ToolContext): unknown
  close?(signal: AbortSignal): Promise<void>
}
