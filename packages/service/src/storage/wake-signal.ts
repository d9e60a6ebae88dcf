import { onAbort } from '@gantry/core/internal/resilience/abort'
/** Wakes its one waiter. A ring without a waiter is kept for the next wait, so that none is missed. */
export interface WakeSignal {
  ring(): void
  /** Resolves after a ring, at the timeout, or when the signal aborts, whichever is first; never rejects. */
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
            stopListening()
            wake = undefined
            resolve()
          }
          const timer = setTimeout(end, ms)
          const stopListening = onAbort(signal, end)
          wake = end
        })
      }
      rung = false
    },
  }
}
