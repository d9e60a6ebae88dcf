import { unlessAborted } from '@gantry/core/internal/resilience/abort'

/** Runs work one after the other, in the order in which it was asked for. */
export type Turns = <T>(work: () => Promise<T>, signal: AbortSignal) => Promise<T>

export function createTurns(): Turns {
  let last: Promise<unknown> = Promise.resolve()
  return (work, signal) => {
    const before = last
    const own = unlessAborted(before, signal).then(work)
    // One that was cancelled while it waited does not let the next one start before its turn.
    last = Promise.all([before, own.catch(() => undefined)])
    return own
  }
}
