/** Time as pools, probes and sessions see it; injectable so that tests decide. */
export interface Timing {
  /** Milliseconds that only grow. */
  now(): number
  /** Does work later, unless it is called off; does not keep the process alive. */
  after(ms: number, work: () => void): Cancel
}

/** Calls off what was to be done; harmless when it is done already. */
export type Cancel = () => void

/** The machine's clock. */
export const systemTiming: Timing = {
  now: () => performance.now(),
  after(ms, work) {
    const timer = setTimeout(work, ms).unref()
    return () => clearTimeout(timer)
  },
}
