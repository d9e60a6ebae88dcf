import type { CallStore, Holder } from '../../storage/calls/call-store.ts'

/**
 * Keeps the leases of the calls that run here.
 * - Concurrency: `hold` and `drop` at any time. A call that is dropped is not told of any more.
 * - Errors: none; a store that does not answer is asked again, and the leases run out meanwhile.
 */
export interface Leases {
  hold(holders: readonly Holder[]): void
  drop(callIds: readonly string[]): void
  close(): Promise<void>
}

/** What is told of a call that runs here. */
export interface LeaseNews {
  /** Somebody else has it, or may have it: its work must stop, and its outcome will not count. */
  readonly lost: (callId: string) => void
  /** Its caller wants it ended. */
  readonly cancelled: (callId: string) => void
}

/** Prolongs leases from this thread, a third of their time after the last; enough where nobody else can take them. */
export function localLeases(store: CallStore, leaseMs: number, news: LeaseNews): Leases {
  const held = new Map<string, number>()
  const timer = setInterval(() => void extend(), Math.max(10, leaseMs / 3))
  timer.unref()
  let extending: Promise<void> | undefined

  const extend = async (): Promise<void> => {
    if (held.size === 0 || extending !== undefined) return
    extending = extendHeld(store, leaseMs, held, news)
    await extending
    extending = undefined
  }
  return {
    hold(holders) {
      for (const { callId, fence } of holders) held.set(callId, fence)
    },
    drop(callIds) {
      for (const callId of callIds) held.delete(callId)
    },
    async close() {
      clearInterval(timer)
      await extending
    },
  }
}

/**
 * One round: what was lost under the fence that is still held is told, and forgotten. A call that was not held in the
 * round `before` may be on its way into the store, so that what is said of it counts only in the next.
 */
export async function extendHeld(
  store: CallStore,
  leaseMs: number,
  held: Map<string, number>,
  news: LeaseNews,
  before: ReadonlyMap<string, number> = held,
): Promise<void> {
  const holders = [...held].map(([callId, fence]) => ({ callId, fence }))
  const fences = new Map(held)
  try {
    const { lost, cancelled } = await store.extend(holders, leaseMs)
    const still = (callId: string): boolean => held.get(callId) === fences.get(callId)
    const known = (callId: string): boolean => before.get(callId) === fences.get(callId)
    for (const callId of lost.filter((one) => still(one) && known(one))) {
      held.delete(callId)
      news.lost(callId)
    }
    for (const callId of cancelled.filter(still)) news.cancelled(callId)
  } catch {
    // The store is away: the next round tries again, and an outcome is checked by its fence whenever it comes.
  }
}
