import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { type Document, type ServiceRig, startServiceRig } from './service.fixture.ts'

/** What differs from run to run, or between a call that is kept and one that is not. */
const volatile = new Set(['callId', 'chainId', 'startedAt', 'durationMs', 'wallMs', 'score', 'cause'])

function still(value: Document): Document {
  return JSON.parse(JSON.stringify(value), (key, each) => (volatile.has(key) ? undefined : each))
}

/** Runs a line through the service and in this process; both must print and end the same. */
async function both(rig: ServiceRig, line: readonly string[]): Promise<Document> {
  const before = rig.service.submitted.length
  const remote = await rig.json(line)
  const asked = rig.service.submitted.length - before
  const local = await rig.json([...line, '--local'])
  assert.equal(rig.service.submitted.length, before + asked, 'the second one stayed here')
  assert.deepEqual(still(remote.values), still(local.values))
  assert.deepEqual([remote.code, unlocated(remote.err)], [local.code, unlocated(local.err)])
  return { ...remote, asked }
}

/** How the place of an error is found differs: by --verbose here, by the call there. */
function unlocated(text: string): string {
  return text.replace(/^.* threw an error; (?:--verbose|gantry call [\w-]+) shows where\.\n/m, '')
}

test('run through a service prints the same Result as run in process, with the same exit code', async (t) => {
  const rig = await startServiceRig(t)
  const good = await both(rig, ['run', 'demo:add', '{"a":5,"b":3}'])
  assert.deepEqual([good.code, good.asked, good.values[0].output], [0, 1, { result: 8 }])
  const failed = await both(rig, ['run', 'demo:fail', '{"message":"no"}'])
  assert.equal(failed.code, 1)
  assert.match(failed.err, /\ndemo:fail threw an error; gantry call [\w-]+ shows where\.\n$/)
  assert.equal((await both(rig, ['run', 'demo:sleep', '{"ms":60000}', '--timeout', '50ms'])).code, 4)
  const plain = await rig.gantry(['run', 'demo:add', '{"a":5,"b":3}'])
  assert.deepEqual(plain, { code: 0, out: '{\n  "result": 8\n}\n', err: '' })
})

test('a call that the service refuses is printed as a Result', async (t) => {
  const rig = await startServiceRig(t)
  const missing = await both(rig, ['run', 'demo:ad', '{}'])
  assert.deepEqual([missing.code, missing.values[0].status], [2, 'failed'])
  assert.deepEqual(missing.values[0].error.details.nearest, ['demo:add'])
  rig.service.refusals.push(new ToolError('DENIED', 'Not you.'))
  const denied = await rig.json(['run', 'demo:add', '{}'])
  assert.deepEqual([denied.code, denied.values[0].status, denied.values[0].output], [3, 'denied', null])
  rig.service.refusals.push(new ToolError('CHAIN_INVALID', 'No chain.'))
  const chain = await rig.json(['chain', '[{"tool":"demo:add"}]'])
  assert.deepEqual([chain.code, chain.values[0].status, chain.values[0].steps], [2, 'failed', []])
})

test('stream through a service prints the same events, one per line', async (t) => {
  const rig = await startServiceRig(t)
  const { values } = await both(rig, ['stream', 'demo:countdown', '{"from":2,"delayMs":1}'])
  assert.equal(values.at(-1).kind, 'done')
  const plain = await rig.gantry(['stream', 'demo:countdown', '{"from":2,"delayMs":1}'])
  assert.equal(plain.out, '2\n1\n{\n  "counted": 2\n}\n')
})

test('a chain through a service prints the same ChainResult', async (t) => {
  const rig = await startServiceRig(t)
  const steps = [
    { id: 'sum', tool: 'demo:add', args: { a: '{{input.a}}', b: 1 } },
    { id: 'twice', tool: 'demo:add', args: { a: '{{prev.result}}', b: '{{prev.result}}' } },
  ]
  const good = await both(rig, ['chain', JSON.stringify(steps), '--input', '{"a":2}'])
  assert.deepEqual([good.asked, good.values[0].output], [1, { result: 6 }])
  const stopped = await both(rig, ['chain', JSON.stringify(steps), '--input', '{"a":"two"}'])
  assert.match(stopped.err, / {2}sum failed\n {2}twice pending\n/)
})

test('tools, search and describe answer the same through a service', async (t) => {
  const rig = await startServiceRig(t)
  const { values } = await both(rig, ['tools', '--namespace', 'demo', '--limit', '2'])
  await both(rig, ['tools', '--namespace', 'demo', '--all-versions'])
  await both(rig, ['tools', '--namespace', 'demo', '--limit', '2', '--cursor', values[0].cursor])
  await both(rig, ['search', 'add', 'numbers', '--namespace', 'demo'])
  for (const level of ['summary', 'types', 'schema', 'full'])
    await both(rig, ['describe', 'demo:add', '--level', level])
  const missing = await rig.json(['describe', 'demo:ad'])
  assert.deepEqual([missing.code, missing.values[0].error.code], [2, 'TOOL_NOT_FOUND'])
})

test('a signal cancels the call at the service, and its Result is printed', async (t) => {
  const rig = await startServiceRig(t)
  const stop = new AbortController()
  const ended = rig.json(['run', 'demo:sleep', '{"ms":60000}'], { signal: stop.signal })
  while (rig.service.ran.length === 0) await new Promise((resolve) => setTimeout(resolve, 5))
  stop.abort(new ToolError('CANCELLED', 'The process received SIGINT.'))
  const { code, values } = await ended
  assert.deepEqual([code, values[0].status], [6, 'cancelled'])
  const chained = new AbortController()
  const chain = rig.json(['chain', '[{"tool":"demo:sleep","args":{"ms":60000}}]'], { signal: chained.signal })
  while (rig.service.ran.length === 1) await new Promise((resolve) => setTimeout(resolve, 5))
  chained.abort(new ToolError('CANCELLED', 'The process received SIGINT.'))
  assert.deepEqual([(await chain).code, (await chain).values[0].status], [6, 'cancelled'])
})

test('the same idempotency key is the same call of the service', async (t) => {
  const rig = await startServiceRig(t)
  const line = ['run', 'demo:add', '{"a":1,"b":1}', '--idempotency-key', 'k']
  const [first, again] = [await rig.json(line), await rig.json(line)]
  assert.equal(first.values[0].callId, again.values[0].callId)
  assert.equal(rig.service.ran.length, 1)
  const other = await rig.json(['run', 'demo:add', '{"a":2,"b":1}', '--idempotency-key', 'k'])
  assert.deepEqual([other.code, other.values[0].error.code], [2, 'IDEMPOTENCY_CONFLICT'])
})

test('an option that needs this process runs in process, and is refused when a service is named', async (t) => {
  const rig = await startServiceRig(t)
  const line = ['run', 'demo:add', '{"a":1,"b":1}', '--backend', 'local:local']
  await rig.json(line)
  assert.equal(rig.service.submitted.length, 0)
  const environment = { GANTRY_URL: rig.server.url, GANTRY_KEY: rig.key }
  const named = await rig.json(line, { environment })
  assert.equal(named.code, 2)
  assert.match(named.values[0].error.message, /A service does not know --backend; add --local/)
})
