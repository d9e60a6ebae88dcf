import assert from 'node:assert/strict'
import { test } from 'node:test'
import { simulate } from '../../packages/service/test/simulator/simulate.ts'

const schedules = 100_000

test(`${schedules} schedules of claim, lease and commit keep every promise`, async () => {
  const first = Number(process.env.GANTRY_SOAK_SEED ?? 1) % 1_000_000
  for (let seed = first; seed < first + schedules; seed++) {
    assert.deepEqual(await simulate(seed), [], `seed ${seed}`)
  }
})
