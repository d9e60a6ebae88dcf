import { testBackend } from '@gantry/conformance/internal/backend'
import type { Tool } from '@gantry/contract'
import type { ToolContext } from './backend.ts'
import { localBackend } from './local.ts'

function tool(name: string): Tool {
  return {
    namespace: 'test',
    name,
    version: '1.0.0',
    description: 'A tool.',
    inputSchema: { type: 'object' },
    effect: 'read',
    backends: [{ kind: 'local' }],
  }
}

testBackend('local', async () => {
  const backend = localBackend()
  backend.add('test:add:1.0.0', ({ a, b }: { a: number; b: number }) => ({ result: a + b }))
  backend.add('test:fail:1.0.0', async () => {
    throw new Error('it broke')
  })
  backend.add('test:wait:1.0.0', (_args: object, { signal }: ToolContext) => {
    const { promise, reject } = Promise.withResolvers<never>()
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    return promise
  })
  return { backend, add: tool('add'), fail: tool('fail'), wait: tool('wait') }
})
