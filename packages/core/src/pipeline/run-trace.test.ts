import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { createExecutor } from '../executor.ts'
import { defineTool } from '../tools/tool.ts'
import { memoryTracer } from '../tracing/memory-tracer.fixture.ts'
import { anything, tool } from './pipeline.fixture.ts'

const traceId = '0af7651916cd43dd8448eb211c80319c'
const spanId = 'b7ad6b7169203331'
const traceparent = `00-${traceId}-${spanId}-01`
const stages = ['lookup', 'validate-input', 'authorize', 'resolve', 'execute', 'normalize', 'validate-output', 'record']

test('a call is one span with its stages as children, in the trace of its caller', async () => {
  const tracer = memoryTracer()
  const gantry = createExecutor({ tools: [tool(() => 'well')], tracer })
  await gantry.run('test:it', {}, { traceparent, callId: 'c-1' })
  await gantry.close()
  const [call] = tracer.spans
  assert.equal(call?.name, 'gantry.call')
  assert.equal(call?.parent, spanId)
  assert.deepEqual(
    tracer.below('gantry.call'),
    stages.map((stage) => `call.${stage}`),
  )
  assert.deepEqual(tracer.below('call.execute'), ['call.attempt'])
  assert.deepEqual(
    tracer.spans.filter((span) => span.traceId !== traceId || span.ends !== 1 || span.code !== undefined),
    [],
  )
  assert.deepEqual(call?.facts, {
    ...{ 'gantry.call_id': 'c-1', 'gantry.tenant': 'local', 'gantry.tool': 'test:it' },
    ...{ 'gantry.tool.version': '1.0.0', 'gantry.status': 'ok', 'gantry.attempts': 1 },
  })
})

test('the spans of a failed call carry its stage and code, but no message or argument', async () => {
  const tracer = memoryTracer()
  const failing = tool(
    async () => {
      throw new ToolError('BACKEND_UNAVAILABLE', 'the password hunter2 is wrong')
    },
    { retry: { attempts: 2, delayMs: 0 }, effect: 'read' },
  )
  const gantry = createExecutor({ tools: [failing], tracer })
  await gantry.run('test:it', { secret: 'canary' })
  await gantry.close()
  const codes = tracer.spans.flatMap(({ name, code }) => (code === undefined ? [] : [`${name} ${code}`]))
  const code = 'BACKEND_UNAVAILABLE'
  assert.deepEqual(codes, [
    `gantry.call ${code}`,
    `call.execute ${code}`,
    `call.attempt ${code}`,
    `call.attempt ${code}`,
  ])
  assert.ok(tracer.spans.every(({ ends }) => ends === 1))
  assert.doesNotMatch(JSON.stringify(tracer.spans), /hunter2|canary/)
})

test('a call that never starts has a span that contains no text of the caller', async () => {
  const tracer = memoryTracer()
  const gantry = createExecutor({ tools: [tool(() => 1)], tracer })
  await gantry.run('test:canary-is-no-tool')
  await gantry.run('test:it', {}, { timeoutMs: -1 })
  await gantry.close()
  const calls = tracer.spans.filter(({ name }) => name === 'gantry.call')
  assert.deepEqual(
    calls.map(({ code }) => code),
    ['TOOL_NOT_FOUND', 'INPUT_INVALID'],
  )
  assert.ok(tracer.spans.every(({ ends }) => ends === 1))
  assert.doesNotMatch(JSON.stringify(tracer.spans), /canary/)
})

test('cancelled and timed-out calls end their spans', async () => {
  const tracer = memoryTracer()
  const gantry = createExecutor({ tools: [tool(() => new Promise(() => undefined))], tracer })
  const stop = new AbortController()
  const running = gantry.run('test:it', {}, { signal: stop.signal })
  stop.abort()
  await running
  await gantry.run('test:it', {}, { timeoutMs: 1 })
  await gantry.close()
  const attempts = tracer.spans.filter(({ name }) => name === 'call.attempt').map(({ code }) => code)
  assert.deepEqual(attempts.at(-1), 'TIMEOUT')
  assert.ok(tracer.spans.every(({ ends }) => ends === 1))
})

test('a chain is a span, and its calls are child spans', async () => {
  const tracer = memoryTracer()
  const gantry = createExecutor({ tools: [tool(() => 1)], tracer })
  const steps = [
    { id: 'a', tool: 'test:it' },
    { id: 'b', tool: 'test:gone' },
  ]
  const result = await gantry.chain(steps, { traceparent, chainId: 'chain-1' })
  await gantry.close()
  assert.equal(result.status, 'failed')
  const [chain] = tracer.spans
  assert.deepEqual([chain?.name, chain?.parent, chain?.code], ['gantry.chain', spanId, 'TOOL_NOT_FOUND'])
  assert.deepEqual(tracer.below('gantry.chain'), ['gantry.call', 'gantry.call'])
  assert.ok(tracer.spans.every((span) => span.traceId === traceId && span.ends === 1))
})

test('a tool receives its traceparent from the tracer or its caller, and a hostile one is ignored', async () => {
  const seen: unknown[] = []
  const telling = tool((_args, context) => {
    seen.push(context.traceparent)
    return 1
  })
  const tracer = memoryTracer()
  const traced = createExecutor({ tools: [telling], tracer })
  await traced.run('test:it', {}, { traceparent })
  const attempt = tracer.spans.find(({ name }) => name === 'call.attempt')
  assert.deepEqual(seen, [`00-${traceId}-${attempt?.id}-01`])
  await traced.close()
  const plain = createExecutor({ tools: [telling] })
  for (const given of [traceparent, 'evil\r\nheader: 1', `${traceparent}-${'x'.repeat(10_000)}`]) {
    const { status } = await plain.run('test:it', {}, { traceparent: given })
    assert.equal(status, 'ok')
  }
  await plain.run('test:it')
  assert.deepEqual(seen.slice(1), [traceparent, undefined, undefined, undefined])
  const { error } = await plain.run('test:it', {}, { traceparent: 7 as never })
  assert.equal(error?.code, 'INPUT_INVALID')
  await plain.close()
})

test('check, reconcile and dry runs create no span', async () => {
  const tracer = memoryTracer()
  const known = defineTool({
    ...{ namespace: 'test', name: 'it', description: 'It.', inputSchema: anything, effect: 'reconcilable' },
    run: () => 1,
    lookup: () => undefined,
  })
  const gantry = createExecutor({ tools: [known], tracer })
  await gantry.check('test:it', {})
  await gantry.reconcile('test:it', 'key')
  await gantry.run('test:it', {}, { recorded: null })
  await gantry.close()
  assert.deepEqual(tracer.spans, [])
})
