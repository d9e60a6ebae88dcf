import type { ToolError } from '@gantry/contract'
import type { Backend } from '../backends/backend.ts'
import type { RetryBudget } from '../resilience/retry-budget.ts'

/** One attempt that was let through; exactly one of its functions is called when it has ended. */
export interface Passage {
  succeed(): void
  /** `until` is when the work has really ended, when that is later than the call. */
  fail(failure: ToolError, until?: PromiseLike<unknown>): void
}

/**
 * What stands between a call and its backend: a rate, a number at a time, a circuit breaker for each tool and backend.
 * - Errors: RATE_LIMITED or CIRCUIT_OPEN instead of a passage, all before anything has started.
 */
export interface Safeguards {
  /** Whether anything guards this backend; local functions go unguarded unless somebody asks. */
  guards(backend: Backend): boolean
  /** Lets one attempt through when its turn comes, and where it asks others before it tries a circuit. A passage that nobody waits for any more is given back. */
  enter(tool: string, backend: Backend, signal: AbortSignal): Passage | Promise<Passage>
  /** What the calls of a backend together may repeat; without one there is no limit. */
  budget(backend: Backend): RetryBudget | undefined
}
