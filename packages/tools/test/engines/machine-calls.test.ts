import assert from 'node:assert/strict'
import { test } from 'node:test'
import { builtinTools, createExecutor } from '@gantry/tools'

test('a call runs in a virtual machine where the configuration has qemu, and the Result says so', async () => {
  const store = process.env.GANTRY_TEST_MACHINES
  assert.ok(store !== undefined, 'There are no machines; run this test by `npm run test:engines`.')
  const executor = createExecutor({ tools: builtinTools(), runtimes: { qemu: { store }, pool: false } })
  try {
    const args = { language: 'python', code: 'print(6*7)', runtime: 'qemu', limits: { wallMs: 60_000 } }
    const result = await executor.run('code:run', args)
    assert.deepEqual(result.output, { exitCode: 0, stdout: '42\n', stderr: '' })
    assert.deepEqual([result.runtime?.kind, result.runtime?.isolation], ['qemu', 'microvm'])
  } finally {
    await executor.close()
  }
})
