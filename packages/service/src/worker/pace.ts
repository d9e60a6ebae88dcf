/** How many calls to claim ahead of the slots: as many as end within a tenth of a second, so that none waits long here. */
export interface Pace {
  readonly ahead: number
  finished(): void
}

const windowMs = 100

export function createPace(most: number, now: () => number = () => performance.now()): Pace {
  let since = now()
  let count = 0
  let ahead = 0
  return {
    get ahead() {
      // A window in which little ended says that calls take long; then nothing is claimed ahead.
      if (now() - since > 2 * windowMs) ahead = Math.min(ahead, count)
      return ahead
    },
    finished() {
      count += 1
      const passed = now() - since
      if (passed < windowMs) return
      ahead = Math.min(most, Math.floor((count * windowMs) / passed))
      since = now()
      count = 0
    },
  }
}
