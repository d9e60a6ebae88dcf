import { setImmediate as turn } from 'node:timers/promises'

/** What is handled in one turn of the event loop: so many questions, each counted with so much text. */
const mostAtOnce = 256
const textOfOne = 4_096

/** Counts a question that was handled; a promise to wait for when others should have their turn before the next. */
export type Pace = (text: string) => Promise<void> | undefined

/** The promise rejects when the signal aborts. */
export function createPace(signal: AbortSignal): Pace {
  let left = mostAtOnce
  return (text) => {
    left -= 1 + text.length / textOfOne
    if (left > 0) return undefined
    left = mostAtOnce
    return turn(undefined, { signal })
  }
}
