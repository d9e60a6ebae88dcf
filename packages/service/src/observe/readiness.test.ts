import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBus } from './bus.ts'
import { createLifecycle, createReadiness } from './readiness.ts'

test('the service is not ready while outcomes wait in the spool', async () => {
  const bus = createBus()
  const lifecycle = createLifecycle(bus)
  const health = { current: () => [] }
  const check = createReadiness({ bus, lifecycle, health, recorder: { spooled: 2 }, worker: { unrecorded: [] } })
  lifecycle.change('ready')
  const { ready, problems } = await check()
  assert.equal(ready, false)
  assert.deepEqual(problems, ['2 outcomes wait in the spool for the database.'])
})
