import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChainCall, Json } from '@gantry/contract'
import fc from 'fast-check'
import { after, echo, fail, fakeRun, untilCancelled } from './chain.fixture.ts'
import { runChain } from './chain.ts'

const each = (more: Partial<ChainCall> = {}): ChainCall => ({
  id: 'each',
  tool: 'a:one',
  forEach: '{{input}}',
  args: { n: '{{item}}', at: '{{index}}' },
  ...more,
})

test('outputs keep the order of the elements in whatever order the calls end', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.array(fc.integer(), { maxLength: 12 }),
      fc.integer({ min: 1, max: 5 }),
      async (s, items, lanes) => {
        let running = 0
        let most = 0
        const { run } = fakeRun({
          'a:one': async ({ n }) => {
            running += 1
            most = Math.max(most, running)
            await s.schedule(Promise.resolve())
            running -= 1
            return n ?? null
          },
        })
        const chain = runChain([each({ concurrency: lanes })], run, { input: items })
        const result = await s.waitFor(chain)
        assert.deepEqual(result.output, items)
        assert.equal(result.steps[0]?.results.length, items.length)
        assert.ok(most <= lanes)
      },
    ),
  )
})

test('elements run one at a time by default, each with its item and index', async () => {
  const { run, calls } = fakeRun({})
  const result = await runChain(
    [{ tool: 'a:b', forEach: ['x', { deep: '{{input.y}}' }], args: { it: '{{item}}', at: 'no. {{index}}' } }],
    run,
    {
      input: { y: '{{item}}' },
    },
  )
  assert.deepEqual(result.output, [
    { it: 'x', at: 'no. 0' },
    { it: { deep: '{{item}}' }, at: 'no. 1' },
  ])
  assert.deepEqual(
    calls.map((call) => call.options.index),
    [0, 1],
  )
})

test('a failed element cancels the running ones and leaves the rest pending', async () => {
  const { run, calls } = fakeRun({
    'a:one': (args, options) => (args.n === 1 ? fail(args, options) : untilCancelled(args, options)),
  })
  const result = await runChain([each({ concurrency: 2 }), { tool: 'a:b' }], run, { input: [0, 1, 2, 3] })
  const [step] = result.steps
  assert.deepEqual(
    [result.status, result.error?.code, result.error?.details],
    ['failed', 'BACKEND_FAILED', { step: 'each', index: 1 }],
  )
  assert.deepEqual(step?.elements, ['failed', 'failed', 'pending', 'pending'])
  assert.deepEqual([step?.results.map((each) => each.status), calls.length], [['cancelled', 'failed'], 2])
})

test('onError replaces the output of a failed element, and the other elements continue', async () => {
  const { run } = fakeRun({ 'a:one': (args, options) => (args.n === 1 ? fail(args, options) : 'fine') })
  const outputOf = async (onError: ChainCall['onError']) => {
    const result = await runChain([each({ ...(onError && { onError }) })], run, { input: [0, 1, 2] })
    assert.deepEqual(
      [result.status, result.steps[0]?.state, result.steps[0]?.error?.details?.index],
      ['ok', 'failed', 1],
    )
    return result.output
  }
  assert.deepEqual(await outputOf('continue'), ['fine', null, 'fine'])
  assert.deepEqual(await outputOf({ output: 'n/a' }), ['fine', 'n/a', 'fine'])
})

test('forEach refuses a value that is not a list, and the error names its type', async () => {
  for (const [input, was] of [
    [null, 'is null'],
    [{ a: 1 }, 'is an object'],
    ['text', 'is text'],
    [7, 'is a number'],
  ] as [Json, string][]) {
    const { error } = await runChain([each()], fakeRun({}).run, { input })
    assert.equal(error?.code, 'REFERENCE_INVALID')
    assert.equal(error?.message, `forEach needs a list; {{input}} ${was}.`)
  }
})

test('an empty list makes no calls and has an empty list as output', async () => {
  const { run, calls } = fakeRun({})
  const result = await runChain([each()], run, { input: [] })
  assert.deepEqual([result.status, result.output, calls.length], ['ok', [], 0])
})

test('more elements than the limits of items or calls allow are refused before the first call', async () => {
  const { run, calls } = fakeRun({})
  const items = await runChain([each()], run, { input: [1, 2, 3], limits: { items: 2 } })
  const budget = await runChain([each({ onError: 'continue' })], run, { input: [1, 2, 3], limits: { calls: 2 } })
  assert.deepEqual([items.error?.code, items.error?.details?.limit], ['LIMIT_EXCEEDED', 'items'])
  assert.deepEqual(
    [budget.error?.code, budget.error?.details?.limit, budget.error?.effect],
    ['LIMIT_EXCEEDED', 'calls', 'none'],
  )
  assert.equal(calls.length, 0)
})

test('a cancelled chain stops between elements and keeps their outputs', async () => {
  const stop = new AbortController()
  const { run } = fakeRun({ 'a:one': (args, options) => (args.n === 1 ? after(stop, echo) : echo)(args, options) })
  const result = await runChain([each({ onError: 'continue' })], run, { input: [0, 1, 2], signal: stop.signal })
  assert.deepEqual(
    [result.status, result.steps[0]?.elements, result.steps[0]?.output],
    ['cancelled', ['ok', 'ok', 'pending'], [{ n: 0, at: 0 }, { n: 1, at: 1 }, null]],
  )
  assert.deepEqual(result.error?.details, { step: 'each', index: 2 })
})

test('a list over evaluationBytes is refused before the first call', async () => {
  const { run, calls } = fakeRun({})
  const input = { a: 'x'.repeat(500_000), list: Array(50_000).fill(1) }
  for (const item of ['{{input.a}}!', '{{input.list}}', 'no. {{input.list}}']) {
    const { error } = await runChain([each({ forEach: Array(30_000).fill(item) })], run, { input })
    assert.deepEqual([error?.code, error?.details?.limit], ['LIMIT_EXCEEDED', 'evaluationBytes'])
  }
  assert.equal(calls.length, 0)
})
