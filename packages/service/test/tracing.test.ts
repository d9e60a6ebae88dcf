import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openRedis } from '../src/brokers/transports/redis/connection.ts'
import { redisForFile } from '../src/brokers/transports/redis/redis.fixture.ts'
import { listOf, textOf } from '../src/brokers/transports/redis/reply.ts'
import { eventually } from './broker-site.fixture.ts'
import { pathTo, startCollector } from './collector.fixture.ts'
import { canary, ofCall, ofSandbox, ofTask, pathsOf, place, stages, startTraced } from './tracing.fixture.ts'

const redis = redisForFile()

test('a traced service', async (t) => {
  const collector = await startCollector(t)
  const service = await startTraced(t, { endpoint: collector.url })

  await t.test('a call over HTTP is one trace from the caller’s span through every stage to the sandbox', async () => {
    const { traceId, spanId, traceparent } = place()
    const result = await service.call({ tool: 'test:boxed', args: { word: canary } }, { traceparent })
    assert.equal(result.status, 'ok', JSON.stringify(result.error))
    assert.deepEqual(result.output.got, { word: canary })
    const spans = await collector.trace(traceId, ['gantry.submit', 'gantry.task', ...ofTask, ...ofCall, ...ofSandbox])
    const submit = spans.find(({ name }) => name === 'gantry.submit')
    assert.equal(submit?.parentSpanId, spanId)
    const task = 'gantry.submit > gantry.task'
    const call = `${task} > task.execute > gantry.call`
    const paths = pathsOf(spans, 'task.queue', 'task.consume', 'task.admit', 'task.record', 'task.reply', 'sandbox.run')
    assert.deepEqual(paths, [
      'gantry.submit > task.queue',
      ...['consume', 'admit', 'record', 'reply'].map((stage) => `${task} > task.${stage}`),
      `${call} > call.execute > call.attempt > sandbox > sandbox.run`,
    ])
    assert.deepEqual(
      pathsOf(spans, ...stages.map((stage) => `call.${stage}`)),
      stages.map((stage) => `${call} > call.${stage}`),
    )
    const sandbox = spans.find(({ name }) => name === 'sandbox')
    assert.equal(result.output.place, `00-${traceId}-${sandbox?.spanId}-01`, 'the program knows its place')
    for (const { name, from, to, code, resource } of spans) {
      assert.ok(to >= from, `${name} ends after it began`)
      assert.equal(code, undefined, name)
      assert.equal(resource['service.name'], 'gantry')
    }
    assert.deepEqual(
      [submit?.kind, submit?.facts['gantry.door'], submit?.facts['gantry.call_id']],
      [2, 'http', result.callId],
    )
    assert.equal(sandbox?.facts['gantry.isolation'], 'wasm')
    await eventually(async () => (service.printed.err.includes('call ended') ? true : undefined), 'a line in the log')
    const line = service.printed.err.split('\n').find((text) => text.includes('call ended')) ?? ''
    assert.deepEqual([JSON.parse(line).task_id, JSON.parse(line).trace_id], [result.callId, traceId])
    assert.equal(JSON.parse(line).tenant, 'default')
  })

  await t.test(
    'spans of a chain, a failure and a rejection hold ids and codes, and no arguments, results, messages or secrets',
    async () => {
      const [chain, failing, refused] = [place(), place(), place()]
      const steps = [
        { id: 'first', tool: 'test:echo', args: { word: canary } },
        { id: 'second', tool: 'test:boxed', args: { word: '{{steps.first.output.args.word}}' } },
      ]
      const ended = await service.call({ steps }, { traceparent: chain.traceparent })
      assert.equal(ended.status, 'ok', JSON.stringify(ended.error))
      const failure = await service.call(
        { tool: 'test:fails', args: { word: canary } },
        { traceparent: failing.traceparent },
      )
      assert.match(failure.error.message, /No: /)
      const refusal = await service.call({ tool: `test:${canary}` }, { traceparent: refused.traceparent })
      assert.equal(refusal.error.code, 'TOOL_NOT_FOUND')
      const twice = [...ofCall, ...ofCall]
      const spans = await collector.trace(chain.traceId, [
        'gantry.chain',
        'gantry.task',
        ...ofTask,
        ...twice,
        ...ofSandbox,
      ])
      const inner = spans.filter(({ name }) => name === 'gantry.call')
      const path = 'gantry.submit > gantry.task > task.execute > gantry.chain > gantry.call'
      assert.deepEqual(
        inner.map((span) => pathTo(spans, span).join(' > ')),
        [path, path],
      )
      assert.deepEqual(
        inner.map(({ facts }) => facts['gantry.tool']),
        ['test:echo', 'test:boxed'],
      )
      const failed = await collector.trace(failing.traceId, ['gantry.submit', 'gantry.task', 'task.reply'])
      const codes = failed.filter(({ code }) => code !== undefined).map(({ name, code }) => `${name} ${code}`)
      const wrong = ['gantry.task', 'gantry.call', 'call.execute', 'call.attempt'].map(
        (name) => `${name} BACKEND_FAILED`,
      )
      assert.deepEqual(codes.sort(), wrong.sort())
      const [submit] = await collector.trace(refused.traceId, ['gantry.submit'])
      assert.deepEqual([submit?.code, submit?.facts['error.type']], ['TOOL_NOT_FOUND', 'TOOL_NOT_FOUND'])
    },
  )

  await t.test('a malformed trace context is ignored, and neither stored nor propagated', async () => {
    const ids = `${'a'.repeat(32)}-${'b'.repeat(16)}`
    const hostile = [
      `ff-${ids}-01`,
      `00-${ids.toUpperCase()}-01`,
      `00-${'0'.repeat(32)}-${'b'.repeat(16)}-01`,
      'x'.repeat(5_000),
    ]
    const also = { tracestate: 'evil=1', baggage: 'word=evil' }
    for (const traceparent of hostile) {
      const result = await service.call({ tool: 'test:boxed', args: {} }, { traceparent, ...also })
      assert.equal(result.status, 'ok')
      assert.match(result.output.place, /^00-(?!a{32})[0-9a-f]{32}-[0-9a-f]{16}-01$/)
    }
    const roots = await eventually(async () => {
      const found = collector.spans.filter(({ name, parentSpanId }) => name === 'gantry.submit' && parentSpanId === '')
      return found.length === hostile.length ? found : undefined
    }, 'traces of their own')
    assert.equal(new Set(roots.map(({ traceId }) => traceId)).size, hostile.length, 'each is another one')
    assert.doesNotMatch(collector.bodies.join() + service.printed.err, /evil|x{50}/)
  })

  assert.equal(await service.stop(), 0)
  assert.doesNotMatch(collector.bodies.join(), new RegExp(`${canary}|No: |evil`), 'no argument, result, secret or word')
})

test('a message over Redis continues the trace that it names, and one with an invalid name starts a new trace', async (t) => {
  const { url } = await redis.server(t)
  const collector = await startCollector(t)
  const service = await startTraced(t, { endpoint: collector.url }, { REDIS_URL: url, GANTRY_TRANSPORT: 'redis' })
  await service.ready
  const hands = await openRedis({ url })
  t.after(() => hands.close())
  const { traceId, spanId, traceparent } = place()
  const send = (message: object) => hands.call(['XADD', 'sg:stream:tools', '*', 'data', JSON.stringify(message)])
  const replyTo = 'sg:stream:tools:replies:test'
  await send({ tool: 'test:boxed', args: { word: canary }, correlationId: 'c1', replyTo, traceparent })
  await send({ tool: 'test:echo', args: {}, correlationId: 'c2', replyTo, traceparent: `00-${'0'.repeat(32)}-x` })
  const answers = await eventually(async () => {
    const entries = listOf(await hands.call(['XRANGE', replyTo, '-', '+'])).map((entry) => listOf(listOf(entry)[1]))
    const found = entries.map((fields) => JSON.parse(textOf(fields[1] ?? null)))
    return found.length < 2 ? undefined : found
  }, 'two answers')
  for (const { error } of answers) assert.equal(error, undefined)
  const spans = await collector.trace(traceId, ['gantry.submit', 'gantry.task', ...ofTask, ...ofCall, ...ofSandbox])
  const submit = spans.find(({ name }) => name === 'gantry.submit')
  assert.deepEqual([submit?.parentSpanId, submit?.kind, submit?.facts['gantry.door']], [spanId, 5, 'redis'])
  assert.deepEqual(pathsOf(spans, 'sandbox.run'), [
    'gantry.submit > gantry.task > task.execute > gantry.call > call.execute > call.attempt > sandbox > sandbox.run',
  ])
  const other = await eventually(
    async () => collector.spans.find((span) => span.name === 'gantry.submit' && span.traceId !== traceId),
    'a second trace',
  )
  assert.equal(other.parentSpanId, '')
  assert.match(other.traceId, /^(?!0{32})[0-9a-f]{32}$/)
  assert.equal(await service.stop(), 0)
  assert.doesNotMatch(collector.bodies.join(), new RegExp(canary))
})
