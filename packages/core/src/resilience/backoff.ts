import { setTimeout as delay } from 'node:timers/promises'
import type { RetryRule } from '@gantry/contract'

/** How long to wait before attempt `attempt + 1`: doubling, capped, with full jitter so that callers spread out. */
export function backoffMs(rule: RetryRule, attempt: number, random: () => number): number {
  const first = rule.delayMs ?? 100
  const ceiling = Math.min(rule.maxDelayMs ?? 10_000, first * 2 ** Math.min(attempt - 1, 30))
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
