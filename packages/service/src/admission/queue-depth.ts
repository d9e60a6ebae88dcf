import type { CallStore } from '../storage/calls/call-store.ts'
import { type Bound, createCountedPlaces, oldMs, type Place } from './counted-slots.ts'

/**
 * How many calls wait to be claimed, looked at now and then, because counting them for each call would cost more than the
 * call; those that were let in here since then are counted here.
 */
export interface DepthGauge {
  /** Undefined while there is room, so that nobody waits for that; else looks again and resolves with whether there is none. */
  full(): Promise<boolean> | undefined
  /** Takes a place for a call; undefined when there is none. */
  take(): Promise<Place | undefined>
  /** Looks now. */
  look(): Promise<number>
}

export function createDepthGauge(
  store: Pick<CallStore, 'depth'>,
  most: () => number,
  now: () => number = () => performance.now(),
): DepthGauge {
  let known = 0
  const places = createCountedPlaces(async () => {
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
