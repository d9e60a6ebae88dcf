/** Time as the pipeline sees it; injectable so that tests decide. */
export interface Clock {
  /** Milliseconds since 1970, at a monotonic time that was just read. */
  now(monotonic: number): number
  /** Milliseconds that only grow. */
  monotonic(): number
  iso(ms: number): string
}

/** The wall clock is read anew after this long; in between it follows the monotonic one, which saves a reading a call. */
const followMs = 20

/** The machine's clock; formats a millisecond once, because many calls share one. */
export function systemClock(): Clock {
  let wallAt = Number.NEGATIVE_INFINITY
  let wall = 0
  let lastMs = Number.NaN
  let lastText = ''
  return {
    now(monotonic) {
      if (monotonic - wallAt >= followMs) {
        wallAt = monotonic
        wall = Date.now()
      }
      return Math.floor(wall + monotonic - wallAt)
    },
    monotonic: () => performance.now(),
    iso(ms) {
      if (ms !== lastMs) {
        lastMs = ms
        lastText = new Date(ms).toISOString()
      }
      return lastText
    },
  }
}
