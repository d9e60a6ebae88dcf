import { createBatch } from '../batch.ts'
import type { CallStore, Holder } from './call-store.ts'

/**
 * Of calls that were just claimed, those that are still ours. When the answer was long on its way, or this process stood
 * still meanwhile, their leases may have run out before anybody could prolong them; then the store is asked again.
 * Nothing that is in doubt is answered, so what the store cannot tell comes back once its lease has run out.
 */
export async function stillHeld<Held extends Holder>(
  store: Pick<CallStore, 'extend'>,
  claims: readonly Held[],
  { askedAt, leaseMs, now = () => performance.now() }: StillHeldOptions,
): Promise<readonly Held[]> {
  let held = claims
  for (let since = askedAt; held.length > 0 && now() - since > leaseMs / 2; ) {
    since = now()
    const lost = new Set(
      await store.extend(held, leaseMs).then(
        (answer) => answer.lost,
        () => held.map(({ callId }) => callId),
      ),
    )
    held = held.filter(({ callId }) => !lost.has(callId))
  }
  return held
}

export interface StillHeldOptions {
  /** When the claim was sent, by `now`. */
  readonly askedAt: number
  readonly leaseMs: number
  readonly now?: () => number
}

/**
 * Says durably that work begins, many calls in one statement; false for a call that is not held any more. A worker that
 * stood still until the answer came checks its lease again: its successor may have begun meanwhile.
 */
export function createBegin(
  store: Pick<CallStore, 'begin' | 'extend'>,
  { leaseMs, now = () => performance.now() }: Omit<StillHeldOptions, 'askedAt'>,
): (holder: Holder) => Promise<boolean> {
  const beginning = createBatch<Holder, boolean>(
    async (holders) => {
      const askedAt = now()
      const begun = new Set(await store.begin(holders))
      const mine = holders.filter(({ callId }) => begun.has(callId))
      const held = new Set(await stillHeld(store, mine, { askedAt, leaseMs, now }))
      return holders.map((holder) => held.has(holder))
    },
    { atOnce: 2 },
  )
  return (holder) => beginning.add(holder)
}
