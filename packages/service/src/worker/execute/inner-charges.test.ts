import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Identity, type Result, ToolError } from '@gantry/contract'
import { defineTool } from '@gantry/core'
import { createExecutor } from '@gantry/tools'
import { someError, someResult } from '../worker.fixture.ts'
import { createInnerCharges, type InnerGate } from './inner-charges.ts'

const ada: Identity = { principal: 'ada', tenant: 'acme', permissions: [], tools: ['t:*', 'code:*'] }
const never = new AbortController().signal
const inputSchema = { type: 'object' } as const
const tool = (namespace: string, name: string, given: object = {}) =>
  defineTool({ namespace, name, description: 'A tool.', inputSchema, effect: 'read', run: () => ({}), ...given })
const executor = createExecutor({
  tools: [tool('t', 'dear', { cost: 5 }), tool('t', 'free'), tool('hidden', 'dear', { cost: 7 })],
})

/** A gate that records its charges, and admits every call for which `answer` does not throw. */
function gateOf(answer: (times: number) => void = () => undefined, most = Number.POSITIVE_INFINITY) {
  const asked: number[] = []
  let refunded = 0
  const gate: InnerGate = {
    async inside(identity, cost) {
      assert.equal(identity, ada)
      asked.push(cost)
      answer(asked.length)
      return () => {
        refunded += cost
      }
    },
    mostAtOnce: () => most,
  }
  const charges = createInnerCharges(gate, executor, ada)
  const call = (id: string, make: () => Promise<Result> = async () => someResult(), given: object = {}) =>
    charges.call({ callId: 'c', tool: id, signal: never, ...given }, make)
  return { asked, call, refunded: () => refunded }
}

const limited = (retryAfterMs: number) =>
  new ToolError('RATE_LIMITED', 'Too many.', { stage: 'admit', details: { retryAfterMs, scope: 'caller' } })

test('an inner call costs what its tool costs, unless it was paid before; an unknown tool costs nothing', async () => {
  const { asked, call, refunded } = gateOf()
  for (const id of ['t:dear', 't:free', 't:none']) assert.equal((await call(id)).status, 'ok')
  await call('t:dear', undefined, { paid: true })
  assert.deepEqual([asked, refunded()], [[5, 0, 0, 0], 0])
})

test('a tool that is hidden from the caller costs nothing, like one that does not exist', async () => {
  const { asked, call } = gateOf()
  for (const id of ['hidden:dear', 't:none']) await call(id)
  assert.deepEqual(asked, [0, 0])
})

test('a call that is refused before its tool runs gets its cost back, and a failure of the tool does not', async () => {
  const { call, refunded } = gateOf()
  const ending = (given: Parameters<typeof someError>[0]) =>
    call('t:dear', async () => someResult({ status: 'failed', error: someError(given) }))
  await ending({ code: 'BACKEND_FAILED', stage: 'execute', effect: 'none' })
  await ending({ code: 'INPUT_INVALID', stage: 'validate-input', effect: 'possible' })
  assert.equal(refunded(), 0)
  await ending({ code: 'DENIED', stage: 'authorize', effect: 'none' })
  await ending({ code: 'CIRCUIT_OPEN', stage: 'execute', effect: 'none' })
  assert.equal(refunded(), 10)
})

test('an inner call waits for a short limit and for unavailable buckets; a long limit is its Result, and no call is made', async () => {
  const short = gateOf((times) => {
    if (times === 1) throw limited(1)
    if (times === 2) throw new ToolError('STORE_UNAVAILABLE', 'Unavailable.')
  })
  assert.equal((await short.call('t:dear')).status, 'ok')
  assert.equal(short.asked.length, 3)
  const long = gateOf(() => {
    throw limited(1_001)
  })
  const { status, error, callId, attempts } = await long.call('t:dear', () => assert.fail('it was made'))
  assert.deepEqual([status, callId, attempts, long.asked.length], ['failed', 'c', 0, 1])
  assert.deepEqual(
    [error?.code, error?.effect, error?.stage, error?.retryable, error?.details],
    ['RATE_LIMITED', 'none', 'admit', true, { retryAfterMs: 1_001, scope: 'caller' }],
  )
  const dear = gateOf(() => {
    throw new ToolError('LIMIT_EXCEEDED', 'Too dear.', { stage: 'admit', effect: 'none' })
  })
  assert.equal((await dear.call('t:dear')).error?.code, 'LIMIT_EXCEEDED')
})

test('a wait ends with its signal, and an unexpected error is not taken for a refusal', async () => {
  const stop = new AbortController()
  const unavailable = gateOf(() => {
    stop.abort(new Error('stopped'))
    throw new ToolError('STORE_UNAVAILABLE', 'Unavailable.')
  })
  await assert.rejects(unavailable.call('t:free', undefined, { signal: stop.signal }), /stopped/)
  const broken = gateOf(() => {
    throw new TypeError('broken')
  })
  await assert.rejects(broken.call('t:free'), /broken/)
})

test('inner calls stay within the concurrency limit of the caller, and a nested program does not wait for its own calls', async () => {
  const { call } = gateOf(undefined, 2)
  let running = 0
  let most = 0
  const work = async (): Promise<Result> => {
    running += 1
    most = Math.max(most, running)
    for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
    running -= 1
    return someResult()
  }
  await Promise.all(Array.from({ length: 9 }, () => call('t:free', work)))
  assert.equal(most, 2)
  const nested = (depth: number): Promise<Result> =>
    call('code:program', () => (depth === 0 ? call('t:free', work) : nested(depth - 1)))
  await Promise.all(Array.from({ length: 5 }, () => nested(3)))
  const stop = new AbortController()
  const full = Promise.all([call('t:free', work), call('t:free', work)])
  const waiting = call('t:free', () => assert.fail('it was made'), { signal: stop.signal })
  stop.abort(new Error('stopped'))
  await assert.rejects(waiting, /stopped/)
  await full
})
