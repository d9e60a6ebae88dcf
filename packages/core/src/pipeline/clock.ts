/** Time as the pipeline sees it; injectable so that tests decide. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number
  /** Milliseconds that only grow. */
  monotonic(): number
  iso(ms: number): string
}

/** The machine's clock; formats a millisecond once, because many calls share one. */
export function systemClock(): Clock {
  let lastMs = Number.NaN
  let lastText = ''
  return {
    now: () => Date.now(),
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
