/**
 * Whether it is worth to look for an answer for a while before sleeping: to sleep and be woken takes longer than a quick
 * answer does. One look that paid makes up for all that did not, so that a slow moment does not make two who are quick
 * with each other slow for good; whoever looked in vain time and again looks only now and then.
 */
export interface SpinPolicy {
  /** Asked before each wait. */
  shouldSpin(): boolean
  /** What came of a look. */
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
