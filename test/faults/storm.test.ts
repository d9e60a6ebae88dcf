import { test } from 'node:test'
import { seed } from './fault.ts'
import { assertSound } from './ledgers.ts'
import { killStorm } from './storm.ts'

/** `test/soak/kill-storm.soak.ts` has large storms on both engines. */
test('100 calls survive repeated kills of their workers: postgres, 3 workers', async (t) => {
  const storm = { engine: 'postgres', workers: 3, calls: 100, kills: 4, lifeMs: 500, slots: 4, seed } as const
  assertSound(await killStorm(t, storm), storm.engine)
})
