import type { Executor } from '@gantry/core'
import { needLabel, readNeed } from '../storage/calls/need.ts'

/** The tools that this worker has among those that calls wait for. */
export interface Offers {
  /** The labels under which calls that need them can be claimed. */
  readonly labels: { readonly [label: string]: string }
  /** Which of the needs this worker can meet now; its labels are those from here on. */
  look(wanted: readonly string[]): Promise<readonly string[]>
}

/** A worker of a fleet in which all have the same tools is never asked, and has no labels. */
export function createOffers(snapshots: {
  readonly current: { readonly executor: Pick<Executor, 'missing'> }
}): Offers {
  let labels: Offers['labels'] = {}
  return {
    get labels() {
      return labels
    },
    async look(wanted) {
      const lacks = await Promise.all(
        wanted.map(async (need) => {
          const { tool, digest } = readNeed(need)
          return snapshots.current.executor.missing(tool, digest)
        }),
      )
      const here = wanted.filter((_, index) => lacks[index] === undefined)
      labels = Object.fromEntries(here.map((need) => [needLabel(need), '']))
      return here
    },
  }
}
