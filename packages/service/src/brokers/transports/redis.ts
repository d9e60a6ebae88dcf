import { ToolError } from '@gantry/contract'
import type { RedisConnections } from './redis/connection.ts'
import { openGroup, positionOf } from './redis/group.ts'
import { refusalOf } from './redis/reply.ts'
import type { Delivery, Transport } from './transport.ts'

export interface RedisTransportOptions {
  readonly redis: RedisConnections
  readonly stream: string
  readonly group: string
  /** Names this process within the group; no other one that lives may have the same name. */
  readonly consumer: string
  /** The field of an entry that holds the envelope; `data` when absent. */
  readonly field?: string
  /** For how long nobody else gets what this consumer was handed and has let be since; a minute when absent. */
  readonly claimIdleMs?: number
  /** Consumers that are silent for so long and have nothing in hand are removed; ten minutes when absent. */
  readonly reapIdleMs?: number
  /**
   * Whether entries that every group of the stream has settled are removed in time, so that it does not grow for ever;
   * yes when absent. No is for streams that somebody reads without a group, or that their writer trims.
   */
  readonly removeSettled?: boolean
}

/** What a released entry waits for at most, besides its delay, to be taken by another consumer that was not woken. */
const longestSweepMs = 5_000

/**
 * A stream of Redis, read as a consumer of a group.
 *
 * An entry is *unread* until some consumer reads it, then *pending* with that consumer until it is settled. What this
 * consumer handed over is *in hand* until it is settled or released: it is touched again and again, so that nobody else
 * takes it however long it waits, and it is not handed over a second time here. What is pending and was not touched
 * for `claimIdleMs`, because its consumer died or has released it, is taken over by the first who sweeps. An entry that
 * was removed while it was pending is *gone*, and handed over as such until that is settled.
 *
 * After its connection broke, and at the start, a consumer first rereads what is pending with it, because an answer may
 * have been lost on the way. When the group is gone it is made again, from the oldest entry on: what was settled and
 * not yet removed may come again then.
 *
 * - Delays of `release` longer than `claimIdleMs` are cut to it.
 * - When `settle` or `release` fails, the entries are no longer in hand and come again after `claimIdleMs`.
 * - Only entries that all groups have settled are ever removed.
 */
export async function redisTransport(options: RedisTransportOptions): Promise<Transport> {
  const { claimIdleMs = 60_000, reapIdleMs = 600_000, removeSettled = true, field = 'data' } = options
  checkTimes({ claimIdleMs, reapIdleMs })
  const group = openGroup({ ...options, field, claimIdleMs })
  const sweepEveryMs = Math.min(claimIdleMs / 2, longestSweepMs)
  const inHand = new Set<string>()
  /** Came when nobody waited any more. */
  let left: readonly Delivery[] = []
  /** The last own entry that was reread; undefined when there is none to reread. */
  let reread: string | undefined = '0'
  let sweepFrom = '0-0'
  let sweepAt = 0
  let tidyAt = 0

  /** What is new here is in hand from now on. */
  const take = (deliveries: readonly Delivery[]): readonly Delivery[] =>
    deliveries.filter((delivery) => {
      const position = positionOf(delivery) ?? ''
      return inHand.size < inHand.add(position).size
    })
  const rereadOwn = async (after: string, max: number): Promise<readonly Delivery[]> => {
    const { deliveries, last } = await group.reread(after, max)
    reread = last
    return deliveries
  }
  const sweep = async (max: number): Promise<readonly Delivery[]> => {
    const { deliveries, next } = await group.sweep(sweepFrom, max)
    sweepFrom = next
    // All of it was looked at; else there may be more at once.
    if (next === '0-0' && deliveries.length < max) sweepAt = performance.now() + sweepEveryMs
    return deliveries
  }
  const tidy = async (): Promise<readonly Delivery[]> => {
    tidyAt = performance.now() + sweepEveryMs
    await group.tidy(reapIdleMs, removeSettled)
    return []
  }
  /** The next thing to do, the most urgent first. */
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
  const letGo = (deliveries: readonly Delivery[]): readonly string[] => {
    const ids = deliveries.flatMap((delivery) => positionOf(delivery) ?? [])
    for (const id of ids) inHand.delete(id)
    return ids
  }
  const release = async (deliveries: readonly Delivery[], delayMs: number): Promise<void> => {
    const ids = letGo(deliveries)
    const waitMs = Math.min(Math.max(delayMs, 0), claimIdleMs)
    if (ids.length > 0) await group.touch(ids, waitMs)
    sweepAt = Math.min(sweepAt, performance.now() + waitMs)
  }
  const keepHold = (): void => {
    if (inHand.size > 0) void group.touch([...inHand], claimIdleMs).catch(() => {})
  }
  await group.create().catch(unlessAway)
  const holding = setInterval(keepHold, claimIdleMs / 3).unref()
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
      const ids = letGo(deliveries)
      if (ids.length > 0) await group.settle(ids)
    },
    release,
    wake() {
      sweepAt = 0
    },
    lag: () => group.lag(),
    async close() {
      clearInterval(holding)
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

/** A group that cannot be made now is made when it is missed. */
function unlessAway(error: unknown): void {
  if (!ToolError.is(error) || error.code !== 'STORE_UNAVAILABLE' || error.retryable === false) throw error
}
