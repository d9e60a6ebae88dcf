import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { sandboxTest } from '@gantry/conformance/internal/sandbox-test'
import { grpc } from '@gantry/grpc/internal/grpc'
import { createExecutor, openSandboxes } from '@gantry/tools'
import { samplePath, startSample } from '../../../grpc/src/server.fixture.ts'
import { open, raw } from '../../../mcp/src/client/backend.fixture.ts'
import { defineTool } from '../tools/tool.ts'
import { memoryTracer } from '../tracing/memory-tracer.fixture.ts'
import { openWorld } from './http/server.fixture.ts'

const traceId = '0af7651916cd43dd8448eb211c80319c'
const traceparent = `00-${traceId}-b7ad6b7169203331-01`
const runtimes = await openSandboxes({ pool: false })
after(() => runtimes.close())

test('an HTTP server receives the traceparent header, unless the configuration sets its own', async (t) => {
  const world = await openWorld((_request, response) => void response.end('{}'))
  t.after(() => world.close())
  await world.call({ method: 'GET', path: '/a' }, {}, { traceparent })
  await world.call({ method: 'GET', path: '/b', headers: { Traceparent: 'own' } }, {}, { traceparent })
  await world.call({ method: 'GET', path: '/c' })
  assert.deepEqual(
    world.seen.map(({ headers }) => headers.traceparent),
    [traceparent, 'own', undefined],
  )
})

test('a gRPC server receives the traceparent of the attempt span as metadata', async (t) => {
  const server = await startSample()
  t.after(() => server.close())
  const tracer = memoryTracer()
  const calculator = grpc({
    name: 'calc',
    address: `grpc://127.0.0.1:${server.port}`,
    proto: samplePath,
    private: true,
  })
  const gantry = createExecutor({ backends: [calculator], tracer })
  t.after(() => gantry.close())
  const tools = await gantry.search('add')
  const { status } = await gantry.run(tools.items[0]?.id ?? '', { a: 1, b: 2 }, { traceparent })
  assert.equal(status, 'ok')
  const attempt = tracer.spans.find(({ name }) => name === 'call.attempt')
  assert.deepEqual(server.seen.at(-1)?.get('traceparent'), [`00-${traceId}-${attempt?.id}-01`])
})

test('an MCP server receives the traceparent in the _meta of its request', async () => {
  await using server = open({ command: raw('plain') })
  const meta = async (context: object) => JSON.parse((await server.call('meta', {}, context)).content[0]?.text ?? '')
  assert.equal((await meta({ traceparent })).traceparent, traceparent)
  assert.equal('traceparent' in (await meta({})), false)
})

test('a program receives the traceparent of its sandbox span in TRACEPARENT, below the attempt span', async (t) => {
  const tracer = memoryTracer()
  const read = defineTool({
    ...{ namespace: 'test', name: 'read', description: 'Reads.', inputSchema: { type: 'object' }, profile: 'wasm' },
    backends: [{ kind: 'sandboxed', language: 'javascript', code: 'return process.env.TRACEPARENT ?? null' }],
  })
  const gantry = createExecutor({ tools: [read], tracer, runtimes })
  t.after(() => gantry.close())
  const { output, error } = await gantry.run('test:read', {}, { traceparent })
  assert.equal(error, undefined)
  const sandbox = tracer.spans.find(({ name }) => name === 'sandbox')
  assert.equal(output, `00-${traceId}-${sandbox?.id}-01`)
  assert.deepEqual(tracer.below('call.attempt'), ['sandbox'])
  assert.deepEqual(tracer.below('sandbox'), ['sandbox.start', 'sandbox.run'])
  assert.deepEqual(sandbox?.facts, { 'gantry.runtime': 'wasm', 'gantry.isolation': 'wasm' })
  assert.ok(tracer.spans.every((span) => span.ends === 1 && span.traceId === traceId))
})

test('without a tracer a program receives the traceparent of its caller, and none when there is none', async (t) => {
  const code = 'return process.env.TRACEPARENT ?? null'
  const gantry = createExecutor({
    runtimes,
    tools: [
      defineTool({
        ...{ namespace: 'test', name: 'read', description: 'Reads.', inputSchema: { type: 'object' }, profile: 'wasm' },
        backends: [{ kind: 'sandboxed', language: 'javascript', code }],
      }),
    ],
  })
  t.after(() => gantry.close())
  const outputs = [
    (await gantry.run('test:read', {}, { traceparent })).output,
    (await gantry.run('test:read', {}, { traceparent: 'nonsense' })).output,
  ]
  assert.deepEqual(outputs, [traceparent, null])
})

sandboxTest('a pooled interpreter receives the traceparent of each run and none of an earlier run', async () => {
  const pooled = await openSandboxes({ pool: { min: 1, max: 1 } })
  const gantry = createExecutor({
    runtimes: pooled,
    tools: [
      defineTool({
        ...{ namespace: 'test', name: 'read', description: 'Reads.', inputSchema: { type: 'object' } },
        ...{ profile: 'standard', runtime: 'process' },
        backends: [{ kind: 'sandboxed', language: 'python', code: 'import os\nreturn os.environ.get("TRACEPARENT")' }],
      }),
    ],
  })
  try {
    const outputs: unknown[] = []
    for (const given of [{ traceparent }, {}, { traceparent }]) {
      outputs.push((await gantry.run('test:read', {}, given)).output)
    }
    assert.deepEqual(outputs, [traceparent, null, traceparent])
  } finally {
    await gantry.close()
    await pooled.close()
  }
})
