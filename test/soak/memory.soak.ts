import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createExecutor, defineTool, demoTools } from 'gantry'

function heapAfterGc(): number {
  globalThis.gc?.()
  return process.memoryUsage().heapUsed
}

test('a million calls do not grow the memory', {
  skip: globalThis.gc === undefined && 'needs --expose-gc',
}, async () => {
  const gantry = createExecutor({ tools: demoTools() })
  const call = async (count: number) => {
    for (let n = 0; n < count; n++) await gantry.run('demo:add', { a: n, b: 1 })
  }
  await call(50_000)
  const before = heapAfterGc()
  await call(1_000_000)
  const grown = heapAfterGc() - before
  assert.ok(grown < 4_000_000, `the heap grew by ${grown} bytes`)
  await gantry.close()
})

test('100,000 calls that time out, fail or are cancelled leave no timer, listener or memory', async () => {
  const stuck = defineTool({
    namespace: 'test',
    name: 'stuck',
    description: 'Never ends.',
    inputSchema: { type: 'object' },
    // An open circuit would reject the calls.
    breaker: false,
    run: () => new Promise(() => undefined),
  })
  const failing = defineTool({
    namespace: 'test',
    name: 'failing',
    description: 'Always fails.',
    inputSchema: { type: 'object' },
    breaker: false,
    run: () => {
      throw new Error('x')
    },
  })
  const gantry = createExecutor({ tools: [stuck, failing] })
  const controller = new AbortController()
  const batch = async (size: number) => {
    const stop = new AbortController()
    const cancelled = Array.from({ length: size }, () => gantry.run('test:stuck', {}, { signal: stop.signal }))
    const timedOut = Array.from({ length: size }, () => gantry.run('test:stuck', {}, { timeoutMs: 1 }))
    const failed = Array.from({ length: size }, () => gantry.run('test:failing', {}, { signal: controller.signal }))
    stop.abort()
    const statuses = (await Promise.all([...cancelled, ...timedOut, ...failed])).map(({ status }) => status)
    assert.deepEqual([...new Set(statuses)].sort(), ['cancelled', 'failed', 'timeout'])
  }
  for (let n = 0; n < 5; n++) await batch(300)
  const before = heapAfterGc()
  for (let n = 0; n < 100; n++) await batch(333)
  const grown = heapAfterGc() - before
  assert.ok(grown < 8_000_000, `the heap grew by ${grown} bytes`)
  await gantry.close()
})

test('registering and unregistering 100,000 tools does not grow the memory', async () => {
  const gantry = createExecutor()
  const churn = (rounds: number) => {
    for (let round = 0; round < rounds; round++) {
      for (let n = 0; n < 1_000; n++) {
        gantry.register(
          defineTool({
            namespace: 'churn',
            name: `tool_${n}`,
            description: `Does thing number ${n} in round ${round}.`,
            inputSchema: { type: 'object', properties: { n: { type: 'number' } } },
            run: () => n,
          }),
        )
      }
      for (let n = 0; n < 1_000; n++) gantry.unregister(`churn:tool_${n}`)
    }
  }
  churn(5)
  const before = heapAfterGc()
  churn(100)
  const grown = heapAfterGc() - before
  assert.equal(gantry.catalog.size, 0)
  assert.ok(grown < 8_000_000, `the heap grew by ${grown} bytes`)
})
