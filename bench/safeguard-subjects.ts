import { createBreaker, createBulkhead } from 'gantry'
import type { Setup } from './measure.ts'

const work = (n: number): number => n + 1

/** The overhead of each safeguard on a trivial function. */
export const subjects: { readonly [name: string]: Setup } = {
  bare: () => work,
  breaker: () => {
    const breaker = createBreaker()
    return breaker.wrap(work)
  },
  bulkhead: () => {
    const bulkhead = createBulkhead({ concurrency: 10 })
    return bulkhead.wrap(work)
  },
  both: () => {
    const [breaker, bulkhead] = [createBreaker(), createBulkhead({ concurrency: 10 })]
    return bulkhead.wrap(breaker.wrap(work))
  },
}
