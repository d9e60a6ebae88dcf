import { type EffectClass, type RetryRule, ToolError } from '@gantry/contract'
import { backoffMs, longestDelayMs, pause } from './backoff.ts'
import type { RetryBudget } from './retry-budget.ts'

export interface RetryOptions {
  readonly rule: RetryRule
  /** Whether the work may be done again after this error; `isRepeatable` for an effect of `once` by default. */
  readonly mayRepeat?: (error: unknown) => boolean
  /** Shared with other calls; when it is spent, the error is thrown as if there were no rule. */
  readonly budget?: RetryBudget
  readonly random?: () => number
  /** Ends the wait between two attempts; the work looks after itself. */
  readonly signal: AbortSignal
}

/**
 * Does work until it succeeds, may not be repeated or the attempts are used up; throws the last error.
 * Waits in between, doubling, with full jitter. An error that says when to come back (`details.retryAfterMs`) is obeyed,
 * unless that is later than the rule's longest delay: then it is thrown at once, because to come sooner would be no use.
 */
export async function retry<T>(work: (attempt: number) => T | PromiseLike<T>, options: RetryOptions): Promise<T> {
  const { rule, mayRepeat = isRepeatable, budget, random = Math.random, signal } = options
  budget?.call()
  for (let attempt = 1; ; attempt++) {
    try {
      return await work(attempt)
    } catch (error) {
      const askedMs = retryAfterMs(error)
      if (attempt >= rule.attempts || askedMs > longestDelayMs(rule) || !mayRepeat(error)) throw error
      if (budget?.repeat() === false) throw error
      await pause(askedMs + backoffMs(rule, attempt, random), signal)
    }
  }
}

/** Whether work that failed may be done again: nothing can have happened, or its effect class says that a repeat is safe. */
export function isRepeatable(error: unknown, effect: EffectClass = 'once'): boolean {
  const safe = effect === 'read' || effect === 'keyed' || effect === 'repeatable'
  if (!ToolError.is(error)) return safe && !(error instanceof Error && error.name === 'AbortError')
  // A backend may think that what it began changes nothing; whether to begin again is for the effect class to say.
  if (error.effect === 'none') return error.retryable && (safe || error.code !== 'BACKEND_FAILED')
  return safe && (error.retryable || error.code === 'BACKEND_FAILED')
}

function retryAfterMs(error: unknown): number {
  const asked = ToolError.is(error) ? error.details?.retryAfterMs : undefined
  return typeof asked === 'number' && asked > 0 ? asked : 0
}
