import type { Delivery } from '../transport.ts'
import type { RedisConnections } from './connection.ts'
import { deliveryOf, goneDelivery } from './entries.ts'
import { refusalOf } from './errors.ts'
import { besideKey } from './hash-slot.ts'
import { type Command, fieldsOf, listOf, numberOf, type Reply, textOf } from './reply.ts'
import { sweepScript, tidyScript, touchScript } from './scripts.ts'

export interface GroupOptions {
  readonly redis: RedisConnections
  readonly stream: string
  readonly group: string
  readonly consumer: string
  readonly field: string
  readonly claimIdleMs: number
}

/** How long a read waits at the server; giving up a wait takes no longer. */
export const waitMs = 100

/** What one consumer of a group does at the server; each rejects with STORE_UNAVAILABLE. */
export interface Group {
  /** Makes the group, which begins with the oldest entry; harmless when it is there. */
  create(): Promise<void>
  /** Entries that nobody has read yet, the oldest first; waits a moment for the first. */
  read(max: number): Promise<readonly Delivery[]>
  /** Entries that this consumer was handed before, after the id. Those that are gone are left to `sweep`. */
  reread(after: string, max: number): Promise<{ readonly deliveries: readonly Delivery[]; readonly last?: string }>
  /** Entries, and ids of entries that are gone, which nobody touched for long; from the id, and where to go on. */
  sweep(from: string, max: number): Promise<{ readonly deliveries: readonly Delivery[]; readonly next: string }>
  /** Nobody else gets these before the delay is over, which is at most the idle time. */
  touch(ids: readonly string[], delayMs: number): Promise<void>
  settle(ids: readonly string[]): Promise<void>
  tidy(reapIdleMs: number, removeSettled: boolean): Promise<void>
  lag(): Promise<number>
  close(): Promise<void>
}

export function openGroup({ redis, stream, group, consumer, field, claimIdleMs }: GroupOptions): Group {
  const reader = redis.waiting(waitMs)
  const gone = redis.cluster ? besideKey(stream, `:gone:${group}`) : `${stream}:gone:${group}`
  const evaluate = (script: string, ...args: (string | number)[]): Promise<Reply> =>
    redis.call(['EVAL', script, 2, stream, gone, group, consumer, ...args])
  const entries = async (from: string, max: number, wait: readonly (string | number)[]): Promise<readonly Reply[]> => {
    const ask: Command = ['XREADGROUP', 'GROUP', group, consumer, 'COUNT', max, ...wait, 'STREAMS', stream, from]
    return listOf(listOf(listOf(await reader.call(ask))[0])[1])
  }
  const countsOf = async (ids: readonly string[]): Promise<readonly number[]> => {
    const answers = await all(
      redis,
      ids.map((id): Command => ['XPENDING', stream, group, id, id, 1]),
    )
    return answers.map((answer) => numberOf(listOf(listOf(answer)[0])[3]) ?? 1)
  }
  return {
    async create() {
      await redis.call(['XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM']).catch((error: unknown) => {
        if (refusalOf(error) !== 'BUSYGROUP') throw error
      })
    },
    async read(max) {
      const found = await entries('>', max, ['BLOCK', waitMs])
      return found.map((entry) => deliveryOf(stream, field, listOf(entry), 1))
    },
    async reread(after, max) {
      const found = (await entries(after, max, [])).map(listOf)
      const there = found.filter(([, fields]) => fields !== null)
      const counts = await countsOf(there.map(([id]) => textOf(id)))
      const deliveries = there.map((entry, at) => deliveryOf(stream, field, entry, counts[at] ?? 1))
      const last = found.at(-1)
      return { deliveries, ...(last === undefined ? {} : { last: textOf(last[0]) }) }
    },
    async sweep(from, max) {
      const [next, taken, due] = listOf(await evaluate(sweepScript, claimIdleMs, from, max))
      const there = listOf(taken).map(listOf)
      const deliveries = there.map((entry) => deliveryOf(stream, field, entry, numberOf(entry[2]) ?? 1))
      const missing = listOf(due).map((id) => goneDelivery(stream, textOf(id)))
      return { deliveries: [...deliveries, ...missing], next: textOf(next) }
    },
    async touch(ids, delayMs) {
      await evaluate(touchScript, claimIdleMs, Math.round(delayMs), ...ids)
    },
    async settle(ids) {
      await all(redis, [
        ['XACK', stream, group, ...ids],
        ['ZREM', gone, ...ids],
      ])
    },
    async tidy(reapIdleMs, removeSettled) {
      await evaluate(tidyScript, reapIdleMs, removeSettled ? 1 : 0)
    },
    async lag() {
      const [groups, length] = await all(redis, [
        ['XINFO', 'GROUPS', stream],
        ['XLEN', stream],
      ])
      const own = listOf(groups)
        .map(fieldsOf)
        .find((fields) => textOf(fields.get('name')) === group)
      const unread = numberOf(own?.get('lag'))
      // After entries were removed from the middle the server does not know; then there are at most as many as all.
      return unread === undefined ? (numberOf(length) ?? 0) : unread + (numberOf(own?.get('pending')) ?? 0)
    },
    close: () => reader.close(),
  }
}

/** Several commands of which each has to be done. */
async function all(redis: RedisConnections, commands: readonly Command[]): Promise<readonly Reply[]> {
  const answers = await redis.pipeline(commands)
  return answers.map((answer) => {
    if (answer instanceof Error) throw answer
    return answer
  })
}
