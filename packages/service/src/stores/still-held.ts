import type { CallStore, Claim } from './call-store.ts'

/**
 * Of calls that were just claimed, those that are still ours. When the answer was long on its way, or this process stood
 * still meanwhile, their leases may have run out before anybody could prolong them; then the store is asked again.
 * Nothing that is in doubt is answered, so what the store cannot tell comes back once its lease has run out.
 */
export async function stillHeld(
  store: Pick<CallStore, 'extend'>,
  claims: readonly Claim[],
  { askedAt, leaseMs, now = () => performance.now() }: StillHeldOptions,
): Promise<readonly Claim[]> {
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
