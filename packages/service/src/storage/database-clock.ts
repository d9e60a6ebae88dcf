/**
 * The time of the database, on every worker: what is recorded of a call must not depend on whose clock is wrong.
 *
 * It runs by the monotonic clock of this process. Each answer of the database bounds the difference between the two,
 * because the time in it was read between the question and the answer. An estimate within these bounds stays, unless they
 * are the narrowest so far.
 */
export interface DatabaseClock {
  /** Milliseconds since 1970; of this machine's clock until something was learnt. */
  now(): number
  /** Asks for the time and learns from the answer; rejects as `read` does. */
  learn(read: () => Promise<Date>): Promise<void>
}

export function createDatabaseClock(
  monotonic: () => number = () => performance.now(),
  wall: () => number = Date.now,
): DatabaseClock {
  let known: { readonly offset: number; readonly width: number } | undefined
  return {
    now: () => Math.floor(known === undefined ? wall() : monotonic() + known.offset),
    async learn(read) {
      const asked = monotonic()
      const at = (await read()).getTime()
      const answered = monotonic()
      const width = answered - asked
      const isPossible = known !== undefined && known.offset >= at - answered && known.offset <= at - asked
      if (known !== undefined && isPossible && width >= known.width) return
      known = { offset: at - (asked + answered) / 2, width }
    },
  }
}
