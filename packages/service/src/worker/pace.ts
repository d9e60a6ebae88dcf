/**
 * How many calls to claim ahead of the slots: as many as these get through in a tenth of a second, so that none waits
 * long here while another worker is idle; far fewer while tenants share the slots, because what is claimed ahead keeps
 * the next call of another tenant in the queue. It goes by how long calls had a slot, whatever kept the slots empty
 * between.
 */
export interface Pace {
  readonly ahead: number
  readonly aheadShared: number
  /** Told how long a call had its slot. */
  ran(ms: number): void
}

const windowMs = 100
const sharedWindowMs = 10
/** So many calls make up the mean: a long one counts at once, and only many short ones make it forgotten. */
const memory = 20

export function createPace(slots: number, most: number): Pace {
  let meanMs = Number.POSITIVE_INFINITY
  return {
    get ahead() {
      return Math.min(most, Math.floor((slots * windowMs) / meanMs))
    },
    get aheadShared() {
      return Math.min(most, Math.floor((slots * sharedWindowMs) / meanMs))
    },
    ran(ms) {
      meanMs = meanMs === Number.POSITIVE_INFINITY ? ms : meanMs + (ms - meanMs) / memory
    },
  }
}
