import { setTimeout as delay } from 'node:timers/promises'
import { type EffectClass, type RetryRule, ToolError } from '@gantry/contract'
import { callback, number } from '../options/option.ts'
import { checkOptions, optionsCheck } from '../options/options.ts'
import { RollingWindow } from './circuit.ts'

export interface RetryOptions {
  readonly rule: RetryRule
  /** Whether the work may be retried after this error; `isRepeatable` with the effect class `once` by default. */
  readonly mayRepeat?: (error: unknown) => boolean
  /** Shared with other calls; when it is exhausted, the error is thrown without a retry. */
  readonly budget?: RetryBudget
  readonly random?: () => number
  /** Ends the wait between two attempts; the work must observe the signal itself. */
  readonly signal: AbortSignal
}

/**
 * Runs work until it succeeds, must not be repeated or the attempts are exhausted; throws the last error.
 * Waits between attempts with exponential backoff and full jitter. `details.retryAfterMs` of an error is honoured, unless
 * it exceeds the longest delay of the rule: then the error is thrown at once, because an earlier retry would fail.
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

/** Whether failed work may be retried: it had no effect, or its effect class makes a repeat safe. */
export function isRepeatable(error: unknown, effect: EffectClass = 'once'): boolean {
  const safe = effect === 'read' || effect === 'keyed' || effect === 'repeatable'
  if (!ToolError.is(error)) return safe && !(error instanceof Error && error.name === 'AbortError')
  // A backend may report effect none for a call that it started; the effect class decides whether to repeat it.
  if (error.effect === 'none') return error.retryable && (safe || error.code !== 'BACKEND_FAILED')
  return safe && (error.retryable || error.code === 'BACKEND_FAILED')
}

function retryAfterMs(error: unknown): number {
  const asked = ToolError.is(error) ? error.details?.retryAfterMs : undefined
  return typeof asked === 'number' && asked > 0 ? asked : 0
}

/** The longest delay of a rule between two attempts. */
function longestDelayMs(rule: RetryRule): number {
  return rule.maxDelayMs ?? 10_000
}

/** The delay before attempt `attempt + 1`: exponential, capped, with full jitter. */
export function backoffMs(rule: RetryRule, attempt: number, random: () => number): number {
  const first = rule.delayMs ?? 100
  const ceiling = Math.min(longestDelayMs(rule), first * 2 ** Math.min(attempt - 1, 30))
  return Math.round(ceiling * random())
}

/** Resolves after `ms`, or rejects with the reason of the signal. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  try {
    await delay(ms, undefined, { signal })
  } catch {
    signal.throwIfAborted()
  }
}

export interface RetryBudgetOptions {
  /** Retries per call; 0.2 limits the extra load on a failing backend to a fifth. */
  readonly ratio?: number
  /** Retries per second that are always allowed, so that rare calls can be retried. */
  readonly minPerSecond?: number
  /** Monotonic milliseconds. */
  readonly now?: () => number
}

/** Limits the retries of all calls together within ten seconds. Share one among the calls of a backend. */
export interface RetryBudget {
  /** Records the start of a call. */
  call(): void
  /** Spends one retry; false when the budget is exhausted. */
  repeat(): boolean
}

export const retryBudgetMembers = { ratio: number(0, 100), minPerSecond: number(0) }
const check = optionsCheck<RetryBudgetOptions>({ members: { ...retryBudgetMembers, now: callback } })

const windowMs = 10_000

export function createRetryBudget(options: RetryBudgetOptions = {}): RetryBudget {
  checkOptions('options of createRetryBudget', check, options)
  const { ratio = 0.2, minPerSecond = 1, now = () => performance.now() } = options
  /** Counts calls as calls and retries as failures. */
  const window = new RollingWindow(windowMs)
  const reserve = (minPerSecond * windowMs) / 1_000
  return {
    call: () => window.add(now(), 1, 0),
    repeat() {
      const time = now()
      window.pass(time)
      if (window.failures + 1 > ratio * window.calls + reserve) return false
      window.add(time, 0, 1)
      return true
    },
  }
}
