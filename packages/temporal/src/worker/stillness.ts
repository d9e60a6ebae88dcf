/** Notices when work can go on only with an outcome from outside. */
export interface Stillness {
  /** Something happened in the work; it is looked at again when nothing else follows. */
  moved(): void
}

/** `onStill` is called when `isStill` holds and nothing has moved for two turns of the event loop. */
export function createStillness(isStill: () => boolean, onStill: () => void): Stillness {
  let version = 0
  return {
    moved() {
      version += 1
      const seen = version
      const look = (): void => {
        if (seen === version && isStill()) onStill()
      }
      // Promises that were resolved in this turn run before the next one.
      setImmediate(() => setImmediate(look))
    },
  }
}

/** Never resolves; rejects when the signal aborts. */
export function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const stop = (): void => reject(signal.reason)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
}
