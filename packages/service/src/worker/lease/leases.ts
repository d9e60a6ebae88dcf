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
export interface LeaseListener {
  /** Somebody else has it, or may have it: its work must stop, and its outcome will not count. */
  readonly lost: (callId: string) => void
  /** Its caller wants it ended. */
  readonly cancelled: (callId: string) => void
}

/** Prolongs leases from this thread, a third of their time after the last; enough where nobody else can take them. */
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
 * One round: what was lost under the fence that is still held is told, and forgotten. A call that was not held in the
 * round `before` may be on its way into the store, so that what is said of it counts only in the next.
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
    // The store is away: the next round tries again, and an outcome is checked by its fence whenever it comes.
  }
}

/**
 * The calls that one thread holds, in memory that another reads whenever it likes. Neither wakes the other or waits for
 * it: holding a call costs next to nothing, and one that is held is known although its thread is blocked right after.
 *
 * An entry is a fence, which is 0 while the entry is free, the length of the id, and the id. The fence is written last.
 * A reader who meets an entry that is being written again may read an id that nobody has, and nothing worse; the call
 * that is missed by that was claimed just now.
 */
interface LeaseTable {
  readonly memory: SharedArrayBuffer
  hold(holder: Holder): void
  drop(callId: string): void
  /** Under which fence a call is held. */
  fenceOf(callId: string): number | undefined
  callIds(): Iterable<string>
}

const entryBytes = 128
const entryWords = entryBytes / Int32Array.BYTES_PER_ELEMENT
const headBytes = 8
/** Room for so many at first, and at most; the latter is only set aside, not used. */
const leastEntries = 1_024
const mostEntries = 1_048_576

/** Ids are those that the service makes, which are far shorter than an entry. */
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

/** What is held now, for the other thread. */
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
