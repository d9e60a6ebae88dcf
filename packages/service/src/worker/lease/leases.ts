import type { CallStore, Holder } from '../../storage/calls/call-store.ts'

/**
 * Renews the leases of the calls that run here.
 *
 * ## States of a call
 * - `held`: its lease is renewed in every round.
 * - `dropped`: its lease is no longer renewed.
 *
 * ## Transitions
 * - `dropped` → `held`: `hold`. A call that is held already gets the new fence.
 * - `held` → `held`: a round renewed the lease, or the store is unavailable and the next round tries again. A cancelled call
 *   is reported to the listener and stays held.
 * - `held` → `dropped`: `drop`, or a round found the lease lost under the fence that is still held, which is reported.
 *
 * ## Contract
 * - Concurrency: `hold` and `drop` at any time. The listener is not called for a call that was dropped.
 * - Errors: none; a store that does not answer is tried again in the next round, and the leases expire meanwhile.
 */
export interface Leases {
  hold(holders: readonly Holder[]): void
  drop(callIds: readonly string[]): void
  close(): Promise<void>
}

/** Called for calls that run in this worker. */
export interface LeaseListener {
  /** Another worker has the lease, or may have it: the attempt must stop, and its outcome does not count. */
  readonly lost: (callId: string) => void
  /** The caller cancelled the call. */
  readonly cancelled: (callId: string) => void
}

/** Renews leases from this thread every third of their time; enough where no other process can claim calls. */
export function localLeases(store: CallStore, leaseMs: number, news: LeaseListener): Leases {
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
 * One round of renewals: a call that was lost under the fence that is still held is reported to the listener, and
 * dropped. A call that was not held in the round `before` may not be stored yet, so it counts as lost only in the next
 * round.
 */
export async function extendHeld(
  store: CallStore,
  leaseMs: number,
  held: Map<string, number>,
  news: LeaseListener,
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
    // The store is unavailable: the next round tries again, and each outcome is checked by its fence.
  }
}

/**
 * The calls that one thread holds, in memory that another thread reads at any time. Neither wakes the other or waits
 * for it: holding a call costs next to nothing, and a held call is visible to the other thread although its own thread
 * blocks right after.
 * | An entry is a fence, which is 0 while the entry is free, the length of the id, and the id. The fence is written
 * last. A reader that meets an entry which is being rewritten may read an id of no call, and nothing worse; the call
 * that it misses was claimed just now.
 */
interface LeaseTable {
  readonly memory: SharedArrayBuffer
  hold(holder: Holder): void
  drop(callId: string): void
  /** The fence under which a call is held. */
  fenceOf(callId: string): number | undefined
  callIds(): Iterable<string>
}

const entryBytes = 128
const entryWords = entryBytes / Int32Array.BYTES_PER_ELEMENT
const headBytes = 8
/** The initial and the largest number of entries; the latter is only reserved, not allocated. */
const leastEntries = 1_024
const mostEntries = 1_048_576

/** Ids are made by the service, and are far shorter than an entry. */
export function createLeaseTable(): LeaseTable {
  const memory = new SharedArrayBuffer(leastEntries * entryBytes, { maxByteLength: mostEntries * entryBytes })
  const words = new Int32Array(memory)
  const held = new Map<string, { readonly entry: number; readonly fence: number }>()
  const free: number[] = []
  let used = 0
  let bytes = Buffer.from(memory)

  const freeEntry = (): number => {
    const entry = free.pop()
    if (entry !== undefined) return entry
    if ((used + 1) * entryBytes > memory.byteLength) {
      memory.grow(memory.byteLength * 2)
      bytes = Buffer.from(memory)
    }
    used += 1
    return used - 1
  }
  return {
    memory,
    hold({ callId, fence }) {
      const entry = held.get(callId)?.entry ?? freeEntry()
      held.set(callId, { entry, fence })
      const start = entry * entryBytes + headBytes
      words[entry * entryWords + 1] = bytes.write(callId, start, entryBytes - headBytes)
      Atomics.store(words, entry * entryWords, fence)
    },
    drop(callId) {
      const found = held.get(callId)
      if (found === undefined) return
      held.delete(callId)
      Atomics.store(words, found.entry * entryWords, 0)
      free.push(found.entry)
    },
    fenceOf: (callId) => held.get(callId)?.fence,
    callIds: () => held.keys(),
  }
}

/** The held leases, read by the other thread. */
export function readLeases(memory: SharedArrayBuffer): Map<string, number> {
  const words = new Int32Array(memory)
  const bytes = Buffer.from(memory)
  const held = new Map<string, number>()
  for (let start = 0; start < bytes.length; start += entryBytes) {
    const word = start / Int32Array.BYTES_PER_ELEMENT
    const fence = Atomics.load(words, word)
    if (fence === 0) continue
    const end = start + headBytes + Math.min(words[word + 1] ?? 0, entryBytes - headBytes)
    const callId = bytes.toString('utf8', start + headBytes, end)
    if (Atomics.load(words, word) === fence) held.set(callId, fence)
  }
  return held
}
