import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createExecutor } from '../executor.ts'
import { tool } from './pipeline.fixture.ts'

test('a streaming tool that timed out holds its slot until it ends, and then emits call:late', async () => {
  const gate = Promise.withResolvers<void>()
  let running = 0
  let most = 0
  const narrow = tool(
    async function* () {
      most = Math.max(most, ++running)
      yield 1
      await gate.promise
      running -= 1
    },
    { concurrency: 1 },
  )
  const gantry = createExecutor({ tools: [narrow] })
  const late = Promise.withResolvers<string>()
  gantry.on('call:late', ({ ended }) => late.resolve(ended))
  assert.equal((await gantry.run('test:it', {}, { timeoutMs: 5 })).status, 'timeout')
  assert.equal((await gantry.run('test:it', {}, { timeoutMs: 5 })).error?.effect, 'none')
  gate.resolve()
  assert.equal(await late.promise, 'returned')
  assert.equal((await gantry.run('test:it')).status, 'ok')
  assert.equal(most, 1)
})

test('a streaming tool that never awaits still times out', async () => {
  const generators = [
    async function* () {
      for (;;) yield 'x'
    },
    function* () {
      for (;;) yield 'x'
    },
  ]
  for (const run of generators) {
    const gantry = createExecutor({ tools: [tool(run)] })
    assert.equal((await gantry.run('test:it', {}, { timeoutMs: 30 })).status, 'timeout')
    let last = ''
    for await (const event of gantry.stream('test:it', {}, { timeoutMs: 30 })) last = event.kind
    assert.equal(last, 'error')
  }
})
