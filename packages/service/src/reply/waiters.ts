import type { ChainResult, Identity, Result } from '@gantry/contract'
import type { Database } from '../storage/databases/database.ts'

export type Outcome = Result | ChainResult

/** Who made a call; another key of the same principal may be bound to other tools. */
export type Caller = Pick<Identity, 'tenant' | 'principal' | 'tools'>

/**
 * Those who wait here for the outcome of a call, whichever process works on it.
 * - Concurrency: any number of waiters, also for one call.
 * - Cancellation: `wait` resolves with undefined when its time is over or its signal aborts.
 */
export interface Waiters {
  /** Says that this one will wait soon: an outcome that comes first is kept for him for some seconds. */
  expect(callId: string, caller: Caller): void
  /**
   * To be asked by who waits, once and before he does: whether he was expected, and the outcome when it came first. One
   * who was is told of the outcome for certain; any other may have missed it, and looks for himself.
   */
  expected(callId: string, caller: Caller): { readonly outcome: Outcome | undefined } | undefined
  wait(callId: string, ms: number, signal: AbortSignal): Promise<Outcome | undefined>
  /** Whether the one who was expected waits, or has not come yet; before the outcome he knows nothing of the call. */
  awaits(callId: string): boolean
  /** An outcome that is known here. */
  tell(callId: string, outcome: Outcome): void
  /** Calls that ended elsewhere; those that are waited for are read. */
  ended(callIds: readonly string[]): void
  /** Reads all that are waited for, because news may have been missed. */
  look(): Promise<void>
  readonly size: number
}

const keepMs = 5_000
/** Outcomes that are kept at a time; whoever misses his reads it from the database. */
const mostKept = 2_000

interface Expected {
  readonly caller: Caller
  readonly until: number
  outcome: Outcome | undefined
}

/** `read` gives the outcomes of those calls that have one. */
export function createWaiters(read: (callIds: readonly string[]) => Promise<ReadonlyMap<string, Outcome>>): Waiters {
  const waiting = new Map<string, Set<(outcome: Outcome | undefined) => void>>()
  const expected = new Map<string, Expected>()

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
    expect(callId, caller) {
      const now = performance.now()
      expected.set(callId, { caller, until: now + keepMs, outcome: undefined })
      forgetOld(now)
    },
    expected(callId, caller) {
      const found = expected.get(callId)
      if (found === undefined || !isSame(found.caller, caller)) return undefined
      expected.delete(callId)
      return found
    },
    wait: (callId, ms, signal) =>
      new Promise((resolve) => {
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
    awaits: (callId) => waiting.has(callId) || expected.has(callId),
    tell,
    ended(callIds) {
      // Who comes too late to hear of it, and was told nothing, reads it himself.
      for (const callId of callIds) if (expected.get(callId)?.outcome === undefined) expected.delete(callId)
      // A failed read is repaired by the next look.
      readAll(callIds).catch(() => undefined)
    },
    look: () => readAll([...waiting.keys()]),
    get size() {
      return waiting.size
    },
  }
}

/**
 * Hears of outcomes from the database; answers the function that ends this.
 * - The worker of this process, when it has one, informs the waiters of its own calls itself.
 */
export function followOutcomes(
  database: Pick<Database, 'listen'>,
  waiters: Pick<Waiters, 'ended' | 'look'>,
  worker: { has(callId: string): boolean } | undefined,
): Promise<() => Promise<void>> {
  return database.listen('gantry_done', (ids) => {
    if (ids === undefined) waiters.look().catch(() => undefined)
    else waiters.ended(ids.split(',').filter((callId) => worker?.has(callId) !== true))
  })
}

function isSame(one: Caller, other: Caller): boolean {
  const { tenant, principal, tools } = other
  return one.tenant === tenant && one.principal === principal && String(one.tools) === String(tools)
}
