/** Time as pools, probes and sessions see it; injectable for tests. */
export interface Timing {
  /** Monotonic milliseconds. */
  now(): number
  /** Schedules work, and returns a function that cancels it; does not keep the process alive. */
  after(ms: number, work: () => void): Cancel
}

/** Cancels the scheduled work; no effect when it has run. */
export type Cancel = () => void

/** The machine's clock. */
export const systemTiming: Timing = {
  now: () => performance.now(),
  after(ms, work) {
    const timer = setTimeout(work, ms).unref()
    return () => clearTimeout(timer)
  },
}
