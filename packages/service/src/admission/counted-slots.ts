import type { CallStore } from '../storage/calls/call-store.ts'

/** A slot among the calls that wait. */
export interface QueueSlot {
  /** The call is stored, where the next count finds it. */
  keep(): void
  /** The call does not wait after all; the slot is free. */
  leave(): void
}

/** The most calls that may wait under a name; without a name, under all names together. */
export interface Bound {
  readonly name: string | undefined
  readonly most: number
}

/**
 * The number of calls that wait under each name: the last count, and the slots taken here since. A slot counts from the
 * moment it is taken, before its call is stored, so that concurrent calls never get more slots than there are. The
 * store is counted again before a refusal, unless the last count is recent.
 */
export interface CountedSlots {
  /** The first bound that is reached as far as this process knows, without a count. */
  full(bounds: readonly Bound[]): Bound | undefined
  /** The same, with a new count before it returns a bound; rejects when the count fails. */
  reached(bounds: readonly Bound[]): Promise<Bound | undefined>
  /** Takes a slot under a name, or returns the first bound that is reached. */
  take(name: string, bounds: readonly Bound[]): Promise<Taken>
  /** Counts, unless the last count is younger than `ageMs`. */
  count(ageMs: number): Promise<void>
  /** Whether this can be dropped: every slot is kept or left, and the last count is old. */
  readonly idle: boolean
}

type Taken = { readonly kind: 'taken'; readonly place: QueueSlot } | { readonly kind: 'full'; readonly bound: Bound }

/** Numbers by name, and their total. */
interface Tally {
  readonly of: Map<string, number>
  total: number
}

const oldMs = 1_000
const freshMs = 50

export function createCountedSlots(
  ask: () => Promise<ReadonlyMap<string, number>>,
  now: () => number = () => performance.now(),
): CountedSlots {
  let counted = tally()
  let countedAt = Number.NEGATIVE_INFINITY
  let counting: Promise<void> | undefined
  /** Slots that are taken and whose calls are not stored yet. */
  const open = tally()
  /** Slots whose calls were stored since the last count began, and since the current count began. */
  let since = tally()
  let sinceThis = tally()

  const askAgain = async (): Promise<void> => {
    sinceThis = tally()
    try {
      const calls = await ask()
      counted = tally()
      for (const [name, number] of calls) add(counted, name, number)
      // A call that was stored during the count may be in it or not; counting it twice is the safe error.
      since = sinceThis
      countedAt = now()
    } finally {
      counting = undefined
    }
  }
  const count = async (ageMs: number): Promise<void> => {
    if (now() - countedAt < ageMs) return
    counting ??= askAgain()
    await counting
  }
  const full = (bounds: readonly Bound[]): Bound | undefined =>
    bounds.find(({ name, most }) => numberOf(counted, name) + numberOf(open, name) + numberOf(since, name) >= most)
  const look = async (bounds: readonly Bound[]): Promise<void> => {
    await count(oldMs)
    if (full(bounds) !== undefined) await count(freshMs)
  }
  return {
    full,
    count,
    async reached(bounds) {
      await look(bounds)
      return full(bounds)
    },
    async take(name, bounds) {
      await look(bounds)
      // The check and the take run without an `await` between them.
      const bound = full(bounds)
      if (bound !== undefined) return { kind: 'full', bound }
      add(open, name, 1)
      const place: QueueSlot = {
        keep() {
          add(open, name, -1)
          add(since, name, 1)
          if (since !== sinceThis) add(sinceThis, name, 1)
        },
        leave: () => add(open, name, -1),
      }
      return { kind: 'taken', place }
    },
    get idle() {
      return open.total === 0 && counting === undefined && now() - countedAt >= oldMs
    },
  }
}

function tally(): Tally {
  return { of: new Map(), total: 0 }
}

function add(to: Tally, name: string, number: number): void {
  const sum = (to.of.get(name) ?? 0) + number
  if (sum === 0) to.of.delete(name)
  else to.of.set(name, sum)
  to.total += number
}

function numberOf(from: Tally, name: string | undefined): number {
  return name === undefined ? from.total : (from.of.get(name) ?? 0)
}

/**
 * The number of calls that wait to be claimed. A count for each call would cost more than the call, so the store is
 * counted periodically, and calls admitted here since then are added.
 */
export interface QueueDepth {
  /** Undefined below the limit, without waiting; else counts again and resolves with whether the queue is full. */
  full(): Promise<boolean> | undefined
  /** Takes a slot for a call; undefined when the queue is full. */
  take(): Promise<QueueSlot | undefined>
  /** Counts now. */
  look(): Promise<number>
}

export function createQueueDepth(
  store: Pick<CallStore, 'depth'>,
  most: () => number,
  now: () => number = () => performance.now(),
): QueueDepth {
  let known = 0
  const places = createCountedSlots(async () => {
    known = await store.depth(most() + 1)
    return new Map([['', known]])
  }, now)
  const bounds = (): readonly Bound[] => [{ name: undefined, most: most() }]
  // An unavailable store refuses the call itself, so a failed count is ignored here.
  const lookAgain = (): void => void places.count(oldMs).catch(() => undefined)
  return {
    full() {
      lookAgain()
      if (places.full(bounds()) === undefined) return undefined
      return places.reached(bounds()).then(
        (bound) => bound !== undefined,
        () => true,
      )
    },
    async take() {
      const taken = await places.take('', bounds())
      return taken.kind === 'taken' ? taken.place : undefined
    },
    async look() {
      await places.count(0)
      return known
    },
  }
}
