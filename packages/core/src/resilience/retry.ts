import { setTimeout as delay } from 'node:timers/promises'
import { type EffectClass, type RetryRule, ToolError } from '@gantry/contract'
import { checkShapes, type OptionShape } from './options.ts'
import { RollingWindow } from './window.ts'

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

/** The longest that a rule lets a call wait between two attempts. */
function longestDelayMs(rule: RetryRule): number {
  return rule.maxDelayMs ?? 10_000
}

/** How long to wait before attempt `attempt + 1`: doubling, capped, with full jitter so that callers spread out. */
export function backoffMs(rule: RetryRule, attempt: number, random: () => number): number {
  const first = rule.delayMs ?? 100
  const ceiling = Math.min(longestDelayMs(rule), first * 2 ** Math.min(attempt - 1, 30))
  return Math.round(ceiling * random())
}

/** Waits, or rejects with the signal's reason. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  try {
    await delay(ms, undefined, { signal })
  } catch {
    signal.throwIfAborted()
  }
}

export interface RetryBudgetOptions {
  /** Repeats for each call; 0.2 lets a failing backend see a fifth more load, not three times as much. */
  readonly ratio?: number
  /** Repeats that are always allowed, so that a rare call has its chance. */
  readonly minPerSecond?: number
  /** Milliseconds that only grow. */
  readonly now?: () => number
}

/** What all calls together may spend on repeats in ten seconds. Share one over the calls of a backend. */
export interface RetryBudget {
  /** A call begins. */
  call(): void
  /** Whether there may be one more repeat now; if so, it is spent. */
  repeat(): boolean
}

const shapes: { readonly [Key in keyof Required<RetryBudgetOptions>]: OptionShape } = {
  ratio: { kind: 'number', least: 0, most: 100 },
  minPerSecond: { kind: 'number', least: 0 },
  now: { kind: 'function' },
}

const windowMs = 10_000

export function createRetryBudget(options: RetryBudgetOptions = {}): RetryBudget {
  checkShapes('createRetryBudget', options, shapes)
  const { ratio = 0.2, minPerSecond = 1, now = () => performance.now() } = options
  /** Its calls are calls, its failures repeats. */
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
