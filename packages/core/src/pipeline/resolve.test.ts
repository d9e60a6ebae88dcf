import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { BackendBinding } from '@gantry/contract'
import type { Backend } from '../backends/backend.ts'
import { createExecutor } from '../executor.ts'
import { defineTool } from '../tools/tool.ts'
import { anything, runIt, tool } from './pipeline.fixture.ts'

function bound(binding: BackendBinding) {
  return defineTool({ namespace: 'test', name: 'it', description: 'It.', inputSchema: anything, backends: [binding] })
}

test('a call of a tool whose backend is missing is refused, and the error names the backend', async () => {
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

test('the error for a missing kind of backend names the package to install and the function to pass', async () => {
  const installs: { readonly [kind: string]: readonly [install: string | undefined, pass: string] } = {
    http: [undefined, 'http({'],
    mcp: ['@gantry/mcp', 'mcp({'],
    grpc: ['@gantry/grpc', 'grpc({'],
    sandboxed: ['@gantry/sandbox', 'sandboxedBackend('],
    session: ['@gantry/sandbox', 'sessionBackend('],
    knowledge: ['@gantry/knowledge', 'knowledgeBackend('],
    files: ['@gantry/tools', 'filesBackend('],
    web: ['@gantry/tools', 'webBackend('],
  }
  for (const [kind, [install, pass]] of Object.entries(installs)) {
    const result = await createExecutor({ tools: [bound({ kind, name: 'other' })] }).run('test:it')
    const message = result.error?.message ?? ''
    assert.equal(result.error?.code, 'NO_BACKEND')
    assert.ok(message.includes(`backends: [${pass}`), message)
    assert.equal(/npm install (\S+?)`/.exec(message)?.[1], install)
  }
  const unknown = await createExecutor({ tools: [bound({ kind: 'carrier-pigeon' })] }).run('test:it')
  assert.equal(unknown.error?.message, 'test:it:1.0.0 needs carrier-pigeon, and none is registered.')
})

test('the error for a missing backend of a registered kind does not suggest to install a package', async () => {
  const other: Backend = { kind: 'mcp', name: 'there', call: async () => ({ output: null }) }
  const gantry = createExecutor({
    tools: [bound({ kind: 'mcp', name: 'files' })],
    backends: [other],
  })
  const result = await gantry.run('test:it')
  assert.equal(result.error?.message, 'test:it:1.0.0 needs mcp:files, and none is registered.')
})

test('a tool with a profile, runtime or egress list is refused when no backend can enforce it', async () => {
  let calls = 0
  for (const demand of [{ profile: 'hardened' }, { runtime: 'docker' }, { egress: ['https://api.example.com'] }]) {
    const gantry = createExecutor({ tools: [tool(() => ++calls, demand)] })
    const result = await gantry.run('test:it')
    assert.equal(result.error?.code, 'RUNTIME_UNAVAILABLE', JSON.stringify(demand))
    assert.equal(result.error?.effect, 'none')
  }
  assert.equal(calls, 0)
})
