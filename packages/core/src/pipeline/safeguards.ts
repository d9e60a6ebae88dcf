import type { BackendBinding, JsonObject, ToolError } from '@gantry/contract'
import type { Backend } from '../backends/backend.ts'
import type { RetryBudget } from '../resilience/retry-budget.ts'
import type { PreparedTool } from './prepare.ts'

/** One attempt that wants to pass. */
export interface GuardedCall {
  readonly tool: PreparedTool
  readonly backend: Backend
  readonly binding: BackendBinding
  readonly args: JsonObject
  readonly tenant: string
}

/** Whose signal ends a wait; read only where there is something to wait for, because it costs a timer. */
export interface Waiting {
  readonly signal: AbortSignal
}

/** One attempt that was let through; exactly one of its functions is called when it has ended. */
export interface Passage {
  succeed(): void
  /** `until` is when the work has really ended, when that is later than the call. */
  fail(failure: ToolError, until?: PromiseLike<unknown>): void
}

/**
 * What stands between a call and its backend: a rate, a number at a time, circuit breakers for each tool,
 * backend and tenant.
 * - Errors: RATE_LIMITED or CIRCUIT_OPEN instead of a passage, all before anything has started.
 */
export interface Safeguards {
  /** Whether anything guards this backend. */
  guards(backend: Backend): boolean
  /** Lets one attempt through when its turn comes, and where it asks others before it tries a circuit. A passage that nobody waits for any more is given back. */
  enter(call: GuardedCall, waiter: Waiting): Passage | Promise<Passage>
  /** What the calls of a backend together may repeat; without one there is no limit. */
  budget(backend: Backend): RetryBudget | undefined
}
