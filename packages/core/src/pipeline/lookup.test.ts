import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createExecutor } from '../executor.ts'
import { alice, runIt, tool } from './pipeline.fixture.ts'

test('a caller who saw another version of the schema is told so', async () => {
  const gantry = createExecutor({ tools: [tool(() => 1)] })
  const { digest } = gantry.catalog.find('test:it')
  assert.equal((await gantry.run('test:it', {}, { schemaDigest: digest })).status, 'ok')
  assert.equal((await gantry.run('test:it', {}, { schemaDigest: 'other' })).error?.code, 'CATALOG_STALE')
})

test('a deprecated tool still runs and says what to use instead', async () => {
  const result = await runIt(tool(() => 1, { deprecated: { message: 'Old.', replacement: 'test:new' } }))
  assert.equal(result.status, 'ok')
  assert.equal(result.warnings[0]?.code, 'DEPRECATED')
  assert.match(result.warnings[0]?.message ?? '', /test:new/)
})

test('a tool that the caller may not see is not among the near names', async () => {
  const hidden = tool(() => 1, { permissions: ['secret'] })
  const gantry = createExecutor({ tools: [hidden], identity: alice })
  for (const id of ['test:itt', 'test:it:9.9.9']) {
    const { error } = await gantry.run(id)
    assert.equal(error?.code, 'TOOL_NOT_FOUND')
    assert.deepEqual(error?.details, { nearest: [] }, id)
    assert.ok(!/test:it\b(?!t|:9)/.test(error?.message ?? ''))
  }
  assert.deepEqual((await gantry.run('test:itt', {}, { identity: { ...alice, permissions: ['*'] } })).error?.details, {
    nearest: ['test:it'],
  })
})
