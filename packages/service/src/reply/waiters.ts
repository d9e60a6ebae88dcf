import type { ChainResult, Result } from '@gantry/contract'

export type Outcome = Result | ChainResult

/**
 * Those who wait here for the outcome of a call, whichever process works on it.
 * - Concurrency: any number of waiters, also for one call.
 * - Cancellation: `wait` resolves with undefined when its time is over or its signal aborts.
 */
export interface Waiters {
  /** Says that somebody will wait soon: an outcome that comes first is kept for him for some seconds. */
  expect(callId: string): void
  wait(callId: string, ms: number, signal: AbortSignal): Promise<Outcome | undefined>
  /** An outcome that is known here. */
  tell(callId: string, outcome: Outcome): void
  /** Calls that ended somewhere; those that are waited for are read. */
  ended(callIds: readonly string[]): void
  /** Reads all that are waited for, because news may have been missed. */
  look(): Promise<void>
  /** Whether nobody waits for this call any more. */
  settled(callId: string): boolean
  readonly size: number
}

const keepMs = 5_000
/** Outcomes that are kept at a time; whoever misses his reads it from the database. */
const mostKept = 2_000

/** `read` gives the outcomes of those calls that have one. */
export function createWaiters(read: (callIds: readonly string[]) => Promise<ReadonlyMap<string, Outcome>>): Waiters {
  const waiting = new Map<string, Set<(outcome: Outcome | undefined) => void>>()
  const expected = new Map<string, { readonly until: number; outcome: Outcome | undefined }>()

  const forgetOld = (now: number): void => {
    for (const [callId, { until }] of expected) {
      if (until > now && expected.size <= mostKept) return
      expected.delete(callId)
    }
  }
  const tell = (callId: string, outcome: Outcome): void => {
    const those = waiting.get(callId)
    waiting.delete(callId)
    for (const resolve of those ?? []) resolve(outcome)
    const kept = expected.get(callId)
    if (kept !== undefined) kept.outcome = outcome
  }
  const readAll = async (callIds: readonly string[]): Promise<void> => {
    const wanted = callIds.filter((callId) => waiting.has(callId))
    if (wanted.length === 0) return
    for (const [callId, outcome] of await read(wanted)) tell(callId, outcome)
  }
  return {
    expect(callId) {
      const now = performance.now()
      expected.set(callId, { until: now + keepMs, outcome: undefined })
      forgetOld(now)
    },
    wait: (callId, ms, signal) =>
      new Promise((resolve) => {
        const kept = expected.get(callId)?.outcome
        expected.delete(callId)
        if (kept !== undefined) return resolve(kept)
        const settle = (outcome: Outcome | undefined): void => {
          clearTimeout(timer)
          signal.removeEventListener('abort', giveUp)
          const those = waiting.get(callId)
          those?.delete(settle)
          if (those?.size === 0) waiting.delete(callId)
          resolve(outcome)
        }
        const giveUp = (): void => settle(undefined)
        const timer = setTimeout(giveUp, ms)
        signal.addEventListener('abort', giveUp, { once: true })
        const those = waiting.get(callId) ?? new Set()
        waiting.set(callId, those)
        those.add(settle)
        if (signal.aborted) giveUp()
      }),
    tell,
    ended(callIds) {
      // A failed read is repaired by the next look.
      readAll(callIds).catch(() => undefined)
    },
    settled: (callId) => !waiting.has(callId),
    look: () => readAll([...waiting.keys()]),
    get size() {
      return waiting.size
    },
  }
}
