import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createExecutor } from '../executor.ts'
import { defineTool } from '../tools/tool.ts'
import { anything, runIt, tool } from './pipeline.fixture.ts'

test('a tool whose backend is not there is refused and says what is missing', async () => {
  const remote = defineTool({
    namespace: 'test',
    name: 'it',
    description: 'It.',
    inputSchema: anything,
    backends: [{ kind: 'http', name: 'weather' }],
  })
  const result = await runIt(remote)
  assert.equal(result.error?.code, 'NO_BACKEND')
  assert.match(result.error?.message ?? '', /http:weather/)
})

test('a tool that asks to be confined is refused where nothing can confine it', async () => {
  let calls = 0
  for (const demand of [{ profile: 'hardened' }, { runtime: 'docker' }, { egress: ['https://api.example.com'] }]) {
    const gantry = createExecutor({ tools: [tool(() => ++calls, demand)] })
    const result = await gantry.run('test:it')
    assert.equal(result.error?.code, 'RUNTIME_UNAVAILABLE', JSON.stringify(demand))
    assert.equal(result.error?.effect, 'none')
  }
  assert.equal(calls, 0)
})
