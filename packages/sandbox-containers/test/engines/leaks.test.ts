import { test } from 'node:test'
import { enginesUnderTest } from './engine-under-test.fixture.ts'
import { countLeaks } from './leaks.fixture.ts'

// `npm run test:soak` does the same with 500 runs and 100 sessions, which take minutes.
for (const engine of enginesUnderTest) {
  test(`${engine.name}: runs and sessions, some of them with an owner that is killed with -9, leave nothing`, async (t) => {
    const counts = await countLeaks(engine, { runs: 60, sessions: 12, killed: 6 })
    t.diagnostic(`the same before and after: ${JSON.stringify(counts)}`)
  })
}
