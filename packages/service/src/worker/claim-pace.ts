/**
 * How many calls to claim ahead of the slots: as many as these get through in a tenth of a second, so that none waits
 * long here while another worker is idle; far fewer while tenants share the slots, because what is claimed ahead keeps
 * the next call of another tenant in the queue. It goes by how long calls had a slot, whatever kept the slots empty
 * between. A slot whose call already has it for much longer than that does not count: what is long now was not foreseen.
 */
export interface Pace {
  /** `olderThan` says how many slots have had their call for longer than so many milliseconds. */
  ahead(shared: boolean, olderThan: (ms: number) => number): number
  /** Told how long a call had its slot. */
  ran(ms: number): void
}

const windowMs = 100
const sharedWindowMs = 10
const shortMs = 5
const muchLonger = 4
/** So many calls make up the mean: a long one counts at once, and only many short ones make it forgotten. */
const memory = 20

export function createPace(slots: number, most: number): Pace {
  let meanMs = Number.POSITIVE_INFINITY
  return {
    ahead(shared, olderThan) {
      if (meanMs === Number.POSITIVE_INFINITY) return 0
      const moving = slots - olderThan(Math.max(shortMs, meanMs * muchLonger))
      return Math.max(0, Math.min(most, Math.floor((moving * (shared ? sharedWindowMs : windowMs)) / meanMs)))
    },
    ran(ms) {
      meanMs = meanMs === Number.POSITIVE_INFINITY ? ms : meanMs + (ms - meanMs) / memory
    },
  }
}
