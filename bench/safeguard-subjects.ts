import { createBreaker, createBulkhead } from 'gantry'
import type { Setup } from './measure.ts'

const work = (n: number): number => n + 1

/** What each safeguard adds to a function that does next to nothing. */
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
