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

/** A gate that keeps what was asked of it, and lets through whatever `answer` does not throw for. */
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

test('a call costs what its tool costs, unless that was paid before; a tool that is not there costs nothing', async () => {
  const { asked, call, refunded } = gateOf()
  for (const id of ['t:dear', 't:free', 't:none']) assert.equal((await call(id)).status, 'ok')
  await call('t:dear', undefined, { paid: true })
  assert.deepEqual([asked, refunded()], [[5, 0, 0, 0], 0])
})

test('a tool that is not there for the caller costs him nothing, like one that is not there at all', async () => {
  const { asked, call } = gateOf()
  for (const id of ['hidden:dear', 't:none']) await call(id)
  assert.deepEqual(asked, [0, 0])
})

test('what was refused before its tool ran gets its cost back, and what a tool made of it does not', async () => {
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

test('a short wait is waited for, and so are buckets that are away; a long one is the Result, and nothing is made', async () => {
  const short = gateOf((times) => {
    if (times === 1) throw limited(1)
    if (times === 2) throw new ToolError('STORE_UNAVAILABLE', 'Away.')
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

test('a wait ends with its signal, and a fault is not taken for a refusal', async () => {
  const stop = new AbortController()
  const away = gateOf(() => {
    stop.abort(new Error('stopped'))
    throw new ToolError('STORE_UNAVAILABLE', 'Away.')
  })
  await assert.rejects(away.call('t:free', undefined, { signal: stop.signal }), /stopped/)
  const broken = gateOf(() => {
    throw new TypeError('broken')
  })
  await assert.rejects(broken.call('t:free'), /broken/)
})

test('no more run at a time than the caller may have, and a program inside does not wait for its own calls', async () => {
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
