/**
 * Whether to spin for a message before sleeping: to sleep and be woken takes longer than a quick response does. One
 * success resets the count of failures, so that a slow moment does not slow a quick pair of threads for good. After
 * repeated failures only one wait in sixteen spins.
 */
export interface SpinPolicy {
  /** Called before each wait. */
  shouldSpin(): boolean
  /** Records whether a spin got a message. */
  record(paid: boolean): void
}

const mostInVain = 8
const nowAndThen = 16

export function createSpinPolicy(): SpinPolicy {
  let inVain = 0
  let waits = 0
  return {
    shouldSpin() {
      if (inVain < mostInVain) return true
      waits = (waits + 1) % nowAndThen
      return waits === 0
    },
    record(paid) {
      inVain = paid ? 0 : inVain + 1
    },
  }
}
