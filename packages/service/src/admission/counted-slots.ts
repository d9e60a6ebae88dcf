import type { CallStore } from '../storage/calls/call-store.ts'

/** A place among the calls that wait. */
export interface QueueSlot {
  /** The call is in the store, where the next count finds it. */
  keep(): void
  /** No call waits there after all. */
  leave(): void
}

/** How many may wait under a name, or without one under all names together. */
export interface Bound {
  readonly name: string | undefined
  readonly most: number
}

/**
 * How many calls wait under each name: as they were counted not long ago, and who took a place here since. A place counts
 * from the moment it is taken, long before its call is in the store, so that of many who come at once no more get one
 * than there are. Before anybody is refused they are counted again, unless that was done a moment ago.
 */
export interface CountedSlots {
  /** The first bound that is reached as far as is known here; asks nobody. */
  full(bounds: readonly Bound[]): Bound | undefined
  /** The same, counted again before there is one; rejects when that cannot be done. */
  reached(bounds: readonly Bound[]): Promise<Bound | undefined>
  /** A place under a name, or the first bound that is reached. */
  take(name: string, bounds: readonly Bound[]): Promise<Taken>
  /** Counts, unless that was done less than so long ago. */
  count(ageMs: number): Promise<void>
  /** Whether nothing is lost when this is forgotten: nobody is on the way to the store, and the last count is old. */
  readonly idle: boolean
}

type Taken = { readonly kind: 'taken'; readonly place: QueueSlot } | { readonly kind: 'full'; readonly bound: Bound }

/** Numbers under names, and all of them together. */
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
  /** Taken, and not in the store yet. */
  const open = tally()
  /** In the store since the last count began, and since the one began that goes on now. */
  let since = tally()
  let sinceThis = tally()

  const askAgain = async (): Promise<void> => {
    sinceThis = tally()
    try {
      const calls = await ask()
      counted = tally()
      for (const [name, number] of calls) add(counted, name, number)
      // What came into the store meanwhile may be among them or not; too many are counted rather than too few.
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
      // Nothing may come between this and the place that is taken.
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
 * How many calls wait to be claimed, looked at now and then, because counting them for each call would cost more than the
 * call; those that were let in here since then are counted here.
 */
export interface QueueDepth {
  /** Undefined while there is room, so that nobody waits for that; else looks again and resolves with whether there is none. */
  full(): Promise<boolean> | undefined
  /** Takes a place for a call; undefined when there is none. */
  take(): Promise<QueueSlot | undefined>
  /** Looks now. */
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
  // A store that is away refuses the call itself, so a failed look says nothing here.
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
