import { test } from 'node:test'
import { seed } from '../faults/fault.ts'
import { assertSound } from '../faults/ledgers.ts'
import { killStorm } from '../faults/storm.ts'

for (const [engine, workers, kills] of [
  ['pglite', 1, 20],
  ['postgres', 3, 40],
] as const) {
  test(`2,000 calls survive processes that are killed within a second of being ready: ${engine}, ${workers} at work`, async (t) => {
    const verdict = await killStorm(t, { engine, workers, calls: 2_000, kills, lifeMs: 1_000, slots: 6, seed })
    assertSound(verdict, engine)
  })
}
