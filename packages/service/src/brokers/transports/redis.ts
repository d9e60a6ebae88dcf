import { ToolError } from '@gantry/contract'
import type { RedisConnections } from './redis/connection.ts'
import { openGroup, positionOf } from './redis/group.ts'
import { refusalOf } from './redis/reply.ts'
import type { Delivery, Transport } from './transport.ts'

export interface RedisTransportOptions {
  readonly redis: RedisConnections
  readonly stream: string
  readonly group: string
  /** Names this process within the group; no other live process may have the same name. */
  readonly consumer: string
  /** The field of an entry that holds the envelope; `data` when absent. */
  readonly field?: string
  /** The time without a renewal after which another consumer may claim a pending entry; a minute when absent. */
  readonly claimIdleMs?: number
  /** The idle time after which a consumer without pending entries is removed; ten minutes when absent. */
  readonly reapIdleMs?: number
  /**
   * Whether entries that every group of the stream has settled are removed, so that the stream does not grow without
   * bound; true when absent. Set false for streams that are read without a group, or that their writer trims.
   */
  readonly removeSettled?: boolean
}

/** The longest time, after its delay, that a released entry waits for a consumer that was not woken. */
const longestSweepMs = 5_000

/**
 * A Redis stream, read as a consumer of a group.
 * | ## States of an entry
 * - `unread`: no consumer of the group has read it.
 * - `in flight`: this consumer delivered it. Its idle time is renewed, so that no other consumer claims it however long
 *   it takes, and it is not delivered a second time here.
 * - `pending`: a consumer read it, and no longer renews it.
 * - `gone`: it was removed from the stream before it was settled.
 * - `settled`: it is acknowledged, and may be removed.
 * | ## Transitions
 * - `unread` → `in flight`: this consumer reads it.
 * - `in flight` → `settled`: `settle`.
 * - `in flight` → `pending`: `release`, a failed `settle` or `release`, or the consumer died.
 * - `pending` → `in flight`: `claimIdleMs`, or the delay of its release, has passed and a consumer sweeps; or its own
 *   consumer rereads it.
 * - `in flight`, `pending` → `gone`: the entry is deleted or trimmed. It is delivered as gone until that is settled.
 * | ## Contract
 * - At the start, and after its connection broke, a consumer first rereads its own pending entries, because a response
 *   may have been lost.
 * - A missing group is created again, from the oldest entry on: entries that were settled and not yet removed may be
 *   delivered again then.
 * - Delays of `release` longer than `claimIdleMs` are reduced to it.
 * - When `settle` or `release` fails, the entries are delivered again after `claimIdleMs`.
 * - Only entries that all groups have settled are ever removed.
 */
export async function redisTransport(options: RedisTransportOptions): Promise<Transport> {
  const { claimIdleMs = 60_000, reapIdleMs = 600_000, removeSettled = true, field = 'data' } = options
  checkTimes({ claimIdleMs, reapIdleMs })
  const group = openGroup({ ...options, field, claimIdleMs })
  const sweepEveryMs = Math.min(claimIdleMs / 2, longestSweepMs)
  const inFlight = new Set<string>()
  /** Entries that arrived after the last `receive` had ended. */
  let left: readonly Delivery[] = []
  /** The id of the last own entry that was reread; undefined when there is none to reread. */
  let reread: string | undefined = '0'
  let sweepFrom = '0-0'
  let sweepAt = 0
  let tidyAt = 0

  /** Marks new entries as in flight, and drops those that are already. */
  const take = (deliveries: readonly Delivery[]): readonly Delivery[] =>
    deliveries.filter((delivery) => {
      const position = positionOf(delivery) ?? ''
      return inFlight.size < inFlight.add(position).size
    })
  const rereadOwn = async (after: string, max: number): Promise<readonly Delivery[]> => {
    const { deliveries, last } = await group.reread(after, max)
    reread = last
    return deliveries
  }
  const sweep = async (max: number): Promise<readonly Delivery[]> => {
    const { deliveries, next } = await group.sweep(sweepFrom, max)
    sweepFrom = next
    // The sweep is complete; otherwise there may be more at once.
    if (next === '0-0' && deliveries.length < max) sweepAt = performance.now() + sweepEveryMs
    return deliveries
  }
  const tidy = async (): Promise<readonly Delivery[]> => {
    tidyAt = performance.now() + sweepEveryMs
    await group.tidy(reapIdleMs, removeSettled)
    return []
  }
  /** Runs the most urgent step. */
  const look = (max: number): Promise<readonly Delivery[]> => {
    if (reread !== undefined) return rereadOwn(reread, max)
    if (performance.now() >= sweepAt) return sweep(max)
    if (performance.now() >= tidyAt) return tidy()
    return group.read(max)
  }
  const lookSafely = async (max: number): Promise<readonly Delivery[]> => {
    try {
      return await look(max)
    } catch (error) {
      reread = '0'
      const reply = String(refusalOf(error))
      if (reply !== 'NOGROUP' && reply !== 'UNBLOCKED') throw error
      await group.create()
      return []
    }
  }
  const removeFromFlight = (deliveries: readonly Delivery[]): readonly string[] => {
    const ids = deliveries.flatMap((delivery) => positionOf(delivery) ?? [])
    for (const id of ids) inFlight.delete(id)
    return ids
  }
  const release = async (deliveries: readonly Delivery[], delayMs: number): Promise<void> => {
    const ids = removeFromFlight(deliveries)
    const waitMs = Math.min(Math.max(delayMs, 0), claimIdleMs)
    if (ids.length > 0) await group.touch(ids, waitMs)
    sweepAt = Math.min(sweepAt, performance.now() + waitMs)
  }
  const renewAll = (): void => {
    if (inFlight.size > 0) void group.touch([...inFlight], claimIdleMs).catch(() => {})
  }
  await group.create().catch(ignoreUnavailable)
  const renewing = setInterval(renewAll, claimIdleMs / 3).unref()
  return {
    kind: 'redis',
    async receive(max, signal) {
      while (!signal.aborted) {
        const taken = left.length > 0 ? left : take(await lookSafely(max))
        const isWanted = !signal.aborted
        left = isWanted ? taken.slice(max) : taken
        if (isWanted && taken.length > 0) return taken.slice(0, max)
      }
      return []
    },
    async settle(deliveries) {
      const ids = removeFromFlight(deliveries)
      if (ids.length > 0) await group.settle(ids)
    },
    release,
    wake() {
      sweepAt = 0
    },
    lag: () => group.lag(),
    async close() {
      clearInterval(renewing)
      await release(left, 0).catch(() => {})
      await group.close()
    },
  }
}

function checkTimes(times: { readonly [name: string]: number }): void {
  for (const [name, ms] of Object.entries(times)) {
    if (Number.isSafeInteger(ms) && ms > 0) continue
    throw new ToolError('CONFIG_INVALID', `${name} of the Redis transport must be a whole number of milliseconds.`)
  }
}

/** A group that cannot be created now is created when it is found missing. */
function ignoreUnavailable(error: unknown): void {
  if (!ToolError.is(error) || error.code !== 'STORE_UNAVAILABLE' || error.retryable === false) throw error
}
