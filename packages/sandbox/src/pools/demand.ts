/** How many sandboxes of one sort are wanted ahead. */
export interface Demand {
  /** Counts one that was taken. */
  take(now: number): void
  /** How many should wait now. */
  target(now: number): number
  /** When the last one was taken. */
  readonly last: number
}

/** Two takes within this time show that there will be more; after it without any, nobody comes again. */
export const pairMs = 60_000
/** A take counts half as much after this time. */
const halfLifeMs = 10_000

/**
 * Sizes a pool by what was taken of late: a count of takes that fades. One take shows nothing, so that what is run once
 * costs nothing more; from the second within a minute on, as many wait as the count says, between `min` and `max`.
 */
export function createDemand({ min, max }: { readonly min: number; readonly max: number }): Demand {
  let count = 0
  let last = Number.NEGATIVE_INFINITY
  let repeated = false
  const faded = (now: number): number => count * 2 ** ((last - now) / halfLifeMs)
  return {
    take(now) {
      count = last === Number.NEGATIVE_INFINITY ? 1 : faded(now) + 1
      repeated = now - last <= pairMs
      last = now
    },
    target(now) {
      if (!repeated || now - last > pairMs) return min
      return Math.min(max, Math.max(min, 1, Math.round(faded(now))))
    },
    get last() {
      return last
    },
  }
}
