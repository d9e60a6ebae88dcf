import { test } from 'node:test'
import { seed } from './fault.ts'
import { assertSound } from './ledgers.ts'
import { killStorm } from './storm.ts'

for (const [engine, workers] of [
  ['pglite', 1],
  ['postgres', 3],
] as const) {
  test(`100 calls survive a process that is killed again and again: ${engine}, ${workers} at work`, async (t) => {
    const verdict = await killStorm(t, { engine, workers, calls: 100, kills: workers + 1, lifeMs: 500, slots: 4, seed })
    assertSound(verdict, engine)
  })
}
