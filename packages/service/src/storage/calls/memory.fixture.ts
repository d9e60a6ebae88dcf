import type { StoreFixture } from '../../conformance/call-store/samples.ts'
import { memoryCallStore } from './memory.ts'

/** An empty store in memory, with a manual clock. */
export function memoryFixture(): StoreFixture {
  let time = 1_000_000
  const store = memoryCallStore({ now: () => time })
  return {
    store,
    other: store,
    async pass(ms) {
      time += ms
    },
    records: async () => store.records,
  }
}
