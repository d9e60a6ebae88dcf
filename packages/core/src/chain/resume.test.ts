import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChainStep, type StepResult, ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { after, fail, fakeRun, untilCancelled } from './chain.fixture.ts'
import { runChain } from './chain.ts'

const throughJson = (steps: readonly StepResult[]): StepResult[] => JSON.parse(JSON.stringify(steps))

test('a chain resumed at the failed step does not repeat the finished ones', async () => {
  const steps: ChainStep[] = [
    { id: 'a', tool: 'a:b', args: { n: 1 } },
    { id: 'b', tool: 'a:b', when: false },
    { id: 'c', tool: 'a:c', args: { n: '{{prev.n}}' } },
    { id: 'd', tool: 'a:b', args: { a: '{{steps.a.output.n}}', b: '{{steps.b.status}}', c: '{{prev}}' } },
  ]
  const first = await runChain(steps, fakeRun({ 'a:c': fail }).run)
  const { run, calls } = fakeRun({ 'a:c': () => 'now' })
  const observed: string[] = []
  const resume = { steps: throughJson(first.steps) }
  const second = await runChain(steps, run, { resume, onStep: (step) => observed.push(step.id) })
  assert.deepEqual([second.status, second.output], ['ok', { a: 1, b: 'skipped', c: 'now' }])
  assert.deepEqual(
    calls.map((call) => call.options.stepId),
    ['c', 'd'],
  )
  assert.deepEqual(observed, ['c', 'd'])
  assert.deepEqual(
    second.steps.map((step) => step.results.length),
    [0, 0, 1, 1],
  )
})

test('a chain resumed after a failure at any call makes each call once and has the same output', async () => {
  const steps: ChainStep[] = [
    { id: 'a', tool: 't:x', args: { n: 1 } },
    { id: 'each', tool: 't:x', forEach: [1, 2, 3], concurrency: 2, args: { n: '{{item}}', a: '{{prev}}' } },
    {
      id: 'g',
      parallel: [
        { id: 'l', tool: 't:x', args: { p: '{{prev}}' } },
        { id: 'r', tool: 't:x', forEach: '{{prev}}', args: { i: '{{item}}' } },
      ],
    },
    { id: 'z', tool: 't:x', args: { g: '{{prev}}', l: '{{steps.l.output}}' } },
  ]
  const whole = await runChain(steps, fakeRun({}).run)
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(fc.nat({ max: 12 }), { maxLength: 6 }), async (breaks) => {
      let call = 0
      const finished: string[] = []
      const { run } = fakeRun({
        't:x': (args, options) => {
          if (breaks.includes(call++)) return fail(args, options)
          finished.push(`${options.stepId} ${options.index}`)
          return args
        },
      })
      let result = await runChain(steps, run)
      for (let tries = 0; result.status !== 'ok' && tries < 10; tries++) {
        result = await runChain(steps, run, { resume: { steps: throughJson(result.steps) } })
      }
      assert.deepEqual(result.output, whole.output)
      assert.equal(new Set(finished).size, finished.length)
    }),
  )
})

test('a failed step with onError is not repeated', async () => {
  const steps: ChainStep[] = [{ tool: 'a:fail', onError: 'continue' }, { tool: 'a:c' }, { tool: 'a:b' }]
  const first = await runChain(steps, fakeRun({ 'a:fail': fail, 'a:c': fail }).run)
  const { run, tools } = fakeRun({})
  await runChain(steps, run, { resume: { steps: first.steps } })
  assert.deepEqual(tools(), ['a:c', 'a:b'])
})

test('a step that was cancelled with the chain runs again, whatever its onError', async () => {
  const steps: ChainStep[] = [{ parallel: [{ id: 'x', tool: 'a:x', onError: 'continue' }] }, { tool: 'a:y' }]
  const stop = new AbortController()
  const first = await runChain(steps, fakeRun({ 'a:x': after(stop, untilCancelled) }).run, { signal: stop.signal })
  const { run, tools } = fakeRun({})
  const second = await runChain(steps, run, { resume: { steps: first.steps } })
  assert.deepEqual([first.status, second.status, tools()], ['cancelled', 'ok', ['a:x', 'a:y']])
})

test('a step with onError whose call alone was cancelled is not repeated', async () => {
  const steps: ChainStep[] = [{ tool: 'a:x', onError: 'continue' }, { tool: 'a:y' }, { tool: 'a:fail' }]
  const gone = () => {
    throw new ToolError('CANCELLED', 'Gone.')
  }
  const first = await runChain(steps, fakeRun({ 'a:x': gone, 'a:fail': fail }).run)
  const { run, tools } = fakeRun({})
  await runChain(steps, run, { resume: { steps: first.steps } })
  assert.deepEqual(tools(), ['a:fail'])
})

test('resume.from repeats that step and all later steps', async () => {
  const steps: ChainStep[] = [{ tool: 'a:1' }, { tool: 'a:2', forEach: [1, 2] }, { tool: 'a:3' }]
  const first = await runChain(steps, fakeRun({}).run)
  const { run, tools } = fakeRun({})
  const again = await runChain(steps, run, { resume: { from: 'step2', steps: first.steps } })
  assert.deepEqual([again.status, tools()], ['ok', ['a:2', 'a:2', 'a:3']])
  const nothing = await runChain(steps, fakeRun({}).run, { resume: { steps: first.steps } })
  assert.deepEqual([nothing.status, nothing.output], ['ok', {}])
})

test('resume refuses the steps of another chain before the first call', async () => {
  const steps: ChainStep[] = [
    { id: 'a', tool: 'a:b' },
    { id: 'g', parallel: [{ id: 'm', tool: 'a:b' }] },
  ]
  const { steps: done } = await runChain(steps, fakeRun({ 'a:b': fail }).run)
  const { run, calls } = fakeRun({})
  const problem = async (resume: unknown) => {
    const { error } = await runChain(steps, run, { resume: resume as never })
    assert.equal(error?.code, 'CHAIN_INVALID')
    return error?.message ?? ''
  }
  const [a, g] = done
  assert.match(await problem({ steps: done, from: 'b' }), /\/from names no step/)
  assert.match(await problem({ steps: done, from: 'g' }), /\/from skips step "a"/)
  assert.match(await problem({ steps: [g, a] }), /\/0\/id is "g"; the chain has "a"/)
  assert.match(await problem({ steps: [{ ...a, tool: 'a:c' }] }), /\/0\/tool is "a:c"/)
  assert.match(await problem({ steps: [...done, a] }), /has 3 steps, the chain 2/)
  assert.match(await problem({ steps: [a, { ...g, steps: [] }] }), /\/1\/steps has 0 members/)
  assert.match(await problem({ steps: 'all' }), /must be the steps of a ChainResult/)
  assert.match(await problem({ steps: [{ id: 'a' }] }), /must be the steps of a ChainResult/)
  assert.match(await problem({ steps: [{ ...a, output: () => 1 }] }), /\/0\/output is a function/)
  assert.equal(calls.length, 0)
})
