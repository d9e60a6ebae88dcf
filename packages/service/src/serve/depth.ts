import type { CallStore } from '../stores/call-store.ts'

/** How many calls wait, looked at now and then, because counting them for each call would cost more than the call. */
export interface DepthGauge {
  /** The last known figure; looks again when it is old. */
  read(): number
  /** Looks now. */
  look(): Promise<number>
}

const oldMs = 1_000

export function createDepthGauge(store: Pick<CallStore, 'depth'>, most: () => number): DepthGauge {
  let known = 0
  let lookedAt = Number.NEGATIVE_INFINITY
  let looking: Promise<number> | undefined

  const look = (): Promise<number> => {
    looking ??= store
      .depth(most() + 1)
      .then((depth) => {
        known = depth
        return depth
      })
      .finally(() => {
        lookedAt = performance.now()
        looking = undefined
      })
    return looking
  }
  return {
    read() {
      // A store that is away refuses the call itself, so a failed look says nothing here.
      if (performance.now() - lookedAt > oldMs) look().catch(() => undefined)
      return known
    },
    look,
  }
}
