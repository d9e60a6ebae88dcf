import { test } from 'node:test'
import { seed } from '../faults/fault.ts'
import { assertSound } from '../faults/ledgers.ts'
import { killStorm } from '../faults/storm.ts'
import { shareOf } from './share.ts'

const calls = shareOf(2_000)

for (const [engine, workers, kills] of [
  ['pglite', 1, shareOf(20)],
  ['postgres', 3, shareOf(40)],
] as const) {
  test(`${calls} calls survive ${kills} kills of their workers within a second of being ready: ${engine}, ${workers} workers`, async (t) => {
    const verdict = await killStorm(t, { engine, workers, calls, kills, lifeMs: 1_000, slots: 6, seed })
    assertSound(verdict, engine)
  })
}
