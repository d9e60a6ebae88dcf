import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBus } from './bus.ts'
import { createWatch } from './readiness.ts'

test('readiness says that outcomes wait in the spool, wherever that is', async () => {
  const watch = createWatch({
    bus: createBus(),
    health: { fresh: async () => [] },
    spooled: () => 2,
    unrecorded: () => [],
  })
  watch.change('ready')
  const { ready, problems } = await watch.check()
  assert.equal(ready, false)
  assert.deepEqual(problems, ['2 outcomes wait in the spool for the database.'])
})
