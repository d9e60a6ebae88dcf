/** Wakes one who waits. A ring that nobody waits for is kept for the next wait, so that none is missed while looking. */
export interface WakeSignal {
  ring(): void
  /** Resolves after a ring, after the time, or when the signal aborts, whichever is first; never rejects. */
  wait(ms: number, signal: AbortSignal): Promise<void>
}

export function createWakeSignal(): WakeSignal {
  let rung = false
  let wake: (() => void) | undefined
  return {
    ring() {
      rung = true
      wake?.()
    },
    async wait(ms, signal) {
      if (!rung && !signal.aborted) {
        await new Promise<void>((resolve) => {
          const end = (): void => {
            clearTimeout(timer)
            signal.removeEventListener('abort', end)
            wake = undefined
            resolve()
          }
          const timer = setTimeout(end, ms)
          signal.addEventListener('abort', end)
          wake = end
        })
      }
      rung = false
    },
  }
}
