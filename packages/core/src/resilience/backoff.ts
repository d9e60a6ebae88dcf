import { setTimeout as delay } from 'node:timers/promises'
import type { RetryRule } from '@gantry/contract'

/** The longest that a rule lets a call wait between two attempts. */
export function longestDelayMs(rule: RetryRule): number {
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
