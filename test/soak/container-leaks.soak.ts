import { test } from 'node:test'
import { enginesUnderTest } from '../../packages/sandbox-containers/test/engines/engine-under-test.fixture.ts'
import { countLeaks } from '../../packages/sandbox-containers/test/engines/leaks.fixture.ts'
import { missingDocker } from '../../scripts/engines/docker.ts'
import { shareOf } from './share.ts'

const missing = missingDocker()
const skip = missing.length === 0 || process.env.GANTRY_ENGINES === 'required' ? false : missing.join('; ')

// All of them take half an hour: each seed has a share of one, and GANTRY_SOAK_ENGINES=all has the whole of every one.
const seed = Number(process.env.GANTRY_SOAK_SEED ?? 0)
const isAll = process.env.GANTRY_SOAK_ENGINES === 'all'
const chosen = enginesUnderTest.filter((_, index) => isAll || index === seed % enginesUnderTest.length)

const whole = { runs: 500, sessions: 100, killed: 30 }
const counted = isAll
  ? whole
  : { runs: shareOf(whole.runs), sessions: shareOf(whole.sessions), killed: shareOf(whole.killed) }

for (const engine of chosen) {
  test(`${engine.name}: ${counted.runs} runs and ${counted.sessions} sessions, ${counted.killed} of them with an owner that is killed with -9, leave nothing`, {
    skip,
  }, async (t) => {
    const counts = await countLeaks(engine, counted)
    t.diagnostic(`the same before and after: ${JSON.stringify(counts)}`)
  })
}
