import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChainStep } from '@gantry/contract'
import { echo, fail, fakeRun } from './chain.fixture.ts'
import { runChain } from './chain.ts'
import { sizeOf } from './limits.ts'

const issuesOf = async (limits: unknown) => {
  const { run, calls } = fakeRun({})
  const { error } = await runChain([{ tool: 'a:b' }], run, { limits: limits as never })
  assert.equal(calls.length, error === undefined ? 1 : 0)
  return error === undefined ? [] : [error.code].concat(error.details?.issues as never)
}

test('invalid limits are refused with their path before the first call', async () => {
  for (const parallel of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 1.5, '4', null]) {
    assert.deepEqual(await issuesOf({ parallel }), [
      'CHAIN_INVALID',
      { path: '/limits/parallel', message: 'must be a whole number of at least 1' },
    ])
  }
  assert.deepEqual(await issuesOf({ calls: -1, stepz: 3 }), [
    'CHAIN_INVALID',
    { path: '/limits/stepz', message: 'is not a known limit (did you mean "steps"?)' },
    { path: '/limits/calls', message: 'must be a whole number of at least 0' },
  ])
  assert.deepEqual(await issuesOf('many'), ['CHAIN_INVALID', { path: '/limits', message: 'must be an object' }])
  assert.deepEqual([await issuesOf(null), await issuesOf({ parallel: undefined })], [[], []])
})

test('options may be null', async () => {
  const result = await runChain([], fakeRun({}).run, null)
  assert.equal(result.status, 'ok')
})

test('a chain over outputBytes ends and keeps its outputs', async () => {
  const input = Array.from({ length: 100_000 }, (_, index) => index)
  const { run, calls } = fakeRun({})
  const steps: ChainStep[] = [
    { id: 'each', tool: 'a:echo', forEach: '{{input.times}}', args: { list: '{{input.list}}' }, onError: 'continue' },
    { tool: 'a:b' },
  ]
  const result = await runChain(steps, run, { input: { times: Array(999).fill(0), list: input } })
  assert.deepEqual(
    [result.status, result.error?.code, result.error?.details?.limit, result.error?.details?.step],
    ['failed', 'LIMIT_EXCEEDED', 'outputBytes', 'each'],
  )
  const [each, rest] = result.steps
  assert.deepEqual([calls.length, each?.results.length, rest?.state], [21, 21, 'pending'])
  assert.equal(each?.elements?.filter((state) => state === 'ok').length, 21)
})

test('the result that exceeds outputBytes is kept, so that a resumed chain does not repeat the call', async () => {
  const { run, tools } = fakeRun({ 'a:big': () => 'x'.repeat(2_000) })
  const steps = [{ tool: 'a:big' }, { parallel: [{ tool: 'a:big' }, { tool: 'a:c' }], concurrency: 1 }, { tool: 'a:d' }]
  const first = await runChain(steps, run, { limits: { outputBytes: 1_000 } })
  assert.deepEqual(
    [first.error?.details?.limit, first.steps.map((step) => step.state)],
    ['outputBytes', ['ok', 'pending', 'pending']],
  )
  const second = await runChain(steps, run, { limits: { outputBytes: 1_000 }, resume: { steps: first.steps } })
  assert.equal(second.error?.details?.limit, 'outputBytes')
  const third = await runChain(steps, run, { resume: { steps: second.steps } })
  assert.deepEqual([third.status, tools()], ['ok', ['a:big', 'a:big', 'a:c', 'a:d']])
})

test('the outputs of onError count against outputBytes', async () => {
  const { run, calls } = fakeRun({ 'a:fail': fail, 'a:b': echo })
  const step = { tool: 'a:fail', forEach: Array(50).fill(0), onError: { output: 'x'.repeat(1_000) } }
  const result = await runChain([step], run, { limits: { outputBytes: 10_000 } })
  assert.deepEqual([result.error?.code, result.error?.details?.limit], ['LIMIT_EXCEEDED', 'outputBytes'])
  assert.ok(calls.length < 10)
})

test('sizeOf stops counting above its limit', () => {
  const circle: unknown[] = []
  circle.push(circle, 'text')
  assert.ok(sizeOf(circle, 1_000) > 1_000)
  assert.equal(sizeOf({ a: [1, 'é', null] }, 1_000), 2 + 5 + 2 + 8 + 4 + 4)
})
