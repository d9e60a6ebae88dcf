import { test } from 'node:test'
import { seed } from './fault.ts'
import { assertSound } from './ledgers.ts'
import { killStorm } from './storm.ts'

/** The soak has the large ones, on both engines. */
test('100 calls survive processes that are killed again and again: postgres, 3 at work', async (t) => {
  const storm = { engine: 'postgres', workers: 3, calls: 100, kills: 4, lifeMs: 500, slots: 4, seed } as const
  assertSound(await killStorm(t, storm), storm.engine)
})
