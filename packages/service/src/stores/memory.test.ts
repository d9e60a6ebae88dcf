import { testCallStore } from '../conformance/call-store.ts'
import { memoryCallStore } from './memory.ts'

testCallStore('memory', async () => () => {
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
})
