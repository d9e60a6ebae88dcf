import type { Holder } from '../call-store.ts'

/** Columns of a JSON list of holders. */
export const holderColumns = 'call_id text, fence integer'

/**
 * The rows of the queue that are held by those in `d`, locked one after the other in the order of `d`. `offset 0` lets
 * the planner find each by its key only: other ways look good to it while the queue is short, or while nobody holds
 * anything, and it would use them still when that has changed.
 */
export const heldSql = `
  held as materialized (
    select d.*, q.worker, q.claimed_at, q.slot_key
    from d, lateral (
      select worker, claimed_at, slot_key, lease_until from queue
      where call_id = d.call_id and fence = d.fence
      offset 0 for update
    ) q
    where q.lease_until is not null
  )`

/**
 * Holders as they go into a statement: each once, and in one order everywhere, so that statements which lock the same
 * calls wait for each other and never in a circle.
 */
export function inOrder<H extends Holder>(holders: readonly H[]): H[] {
  const each = new Map(holders.map((holder) => [`${holder.fence} ${holder.callId}`, holder]))
  return [...each.values()].sort((a, b) => (a.callId < b.callId ? -1 : a.callId > b.callId ? 1 : a.fence - b.fence))
}

/** The list as JSON. */
export function holdersJson(holders: readonly Holder[]): string {
  return JSON.stringify(inOrder(holders).map(({ callId, fence }) => ({ call_id: callId, fence })))
}
