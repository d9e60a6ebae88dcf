import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createExecutor } from './executor.ts'

test('an executor without runtimes refuses a program, and the error names the package to install', async () => {
  const gantry = createExecutor()
  const { error } = await gantry.code('return 1')
  assert.equal(error?.code, 'RUNTIME_UNAVAILABLE')
  assert.match(error?.message ?? '', /npm install @gantry\/sandbox/)
  await gantry.close()
})
