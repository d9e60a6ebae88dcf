import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChainStep, StepResult } from '@gantry/contract'
import { chainResultSchema } from '@gantry/contract/schemas'
import { compileSchema } from '@gantry/json-schema'
import { after, echo, fail, fakeRun, resultOf, untilCancelled } from './chain.fixture.ts'
import { runChain } from './chain.ts'

const states = (steps: readonly StepResult[]) => steps.map((step) => step.state)

test('steps run in order and refer to earlier outputs with their types', async () => {
  const { run, calls } = fakeRun({ 'issues:create': () => ({ number: 7, tags: ['a'] }) })
  const result = await runChain(
    [
      { id: 'issue', tool: 'issues:create', args: { title: '{{input.title}}' } },
      {
        tool: 'issues:label',
        args: { issue: '{{prev.number}}', text: '#{{steps.issue.output.number}}' },
        usePrevious: 'whole',
      },
      { tool: 'issues:close', args: { status: '{{steps.issue.status}}' }, usePrevious: true },
    ],
    run,
    { input: { title: 'Fire' }, chainId: 'c1', now: () => 0 },
  )
  const label = { issue: 7, text: '#7', whole: { number: 7, tags: ['a'] } }
  assert.deepEqual(
    calls.map((call) => call.args),
    [{ title: 'Fire' }, label, { status: 'ok', previous: label }],
  )
  assert.deepEqual([result.chainId, result.status, result.output], ['c1', 'ok', { status: 'ok', previous: label }])
  assert.deepEqual(
    result.steps.map((step) => step.id),
    ['issue', 'step2', 'step3'],
  )
  assert.equal(result.startedAt, '1970-01-01T00:00:00.000Z')
})

test('an empty chain is ok with output null', async () => {
  const result = await runChain([], fakeRun({}).run)
  assert.deepEqual([result.status, result.output, result.steps], ['ok', null, []])
})

test('timeout, retry rule and step id are passed to the call', async () => {
  const { run, calls } = fakeRun({})
  await runChain([{ id: 'one', tool: 'a:b', timeoutMs: 50, retry: { attempts: 3, delayMs: 1 } }, { tool: 'a:b' }], run)
  const [first, second] = calls.map(({ options: { signal: _, ...rest } }) => rest)
  assert.deepEqual(first, { stepId: 'one', decisive: true, timeoutMs: 50, retry: { attempts: 3, delayMs: 1 } })
  assert.deepEqual(second, { stepId: 'step2', decisive: true })
})

test('an invalid chain makes no calls and ends with CHAIN_INVALID', async () => {
  const { run, calls } = fakeRun({})
  const bad = [{ tool: 'a:b' }, { tool: 'a:b', args: { x: '{{steps.nope.output}}' } }]
  for (const steps of [bad, null, 'text', { length: 1 }] as unknown as ChainStep[][]) {
    const result = await runChain(steps, run)
    assert.deepEqual(
      [result.status, result.error?.code, result.error?.effect, result.steps],
      ['failed', 'CHAIN_INVALID', 'none', []],
    )
  }
  const { error } = await runChain(bad, run)
  assert.match(error?.message ?? '', /\/1\/args\/x \{\{steps\.nope\.output\}\} refers to a step that does not exist/)
  assert.match(JSON.stringify(error?.details?.issues), /^\[\{"path":"\/1\/args\/x",/)
  const input = await runChain([], run, { input: new Map() as never })
  assert.equal(input.error?.code, 'CHAIN_INVALID')
  assert.equal(calls.length, 0)
})

test('a failure ends the chain with the outputs so far, the failed step and the rest pending', async () => {
  const { run } = fakeRun({ 'a:fail': fail })
  const result = await runChain([{ tool: 'a:b', args: { n: 1 } }, { id: 'bad', tool: 'a:fail' }, { tool: 'a:b' }], run)
  assert.deepEqual([result.status, result.output, result.error?.code], ['failed', null, 'BACKEND_FAILED'])
  assert.equal(result.error?.details?.step, 'bad')
  assert.deepEqual(states(result.steps), ['ok', 'failed', 'pending'])
  assert.deepEqual(
    result.steps.map((step) => step.results.length),
    [1, 1, 0],
  )
  assert.deepEqual(result.steps[0]?.output, { n: 1 })
})

test('a failed chain has the status of the call that failed', async () => {
  for (const status of ['denied', 'timeout', 'unknown', 'cancelled'] as const) {
    const result = await runChain([{ tool: 'a:b' }], async () => resultOf(status, null))
    assert.deepEqual([result.status, result.error?.code], [status, 'INTERNAL'])
  }
})

test('onError continues with null or with a given output, and keeps the error', async () => {
  const { run, calls } = fakeRun({ 'a:fail': fail })
  const result = await runChain(
    [
      { id: 'x', tool: 'a:fail', onError: 'continue' },
      { id: 'y', tool: 'a:fail', onError: { output: { n: '{{prev}}' } } },
      {
        tool: 'a:b',
        args: { x: '{{steps.x.output}}', why: '{{steps.x.error.code}}', y: '{{prev.n}}', s: '{{steps.y.status}}' },
      },
    ],
    run,
  )
  assert.equal(result.status, 'ok')
  assert.deepEqual(states(result.steps), ['failed', 'failed', 'ok'])
  assert.equal(result.steps[0]?.error?.code, 'BACKEND_FAILED')
  assert.deepEqual(calls[2]?.args, { x: null, why: 'BACKEND_FAILED', y: '{{prev}}', s: 'failed' })
})

test('a missing path fails its step before the call, and onError applies to it', async () => {
  const { run, calls } = fakeRun({})
  const steps = [{ tool: 'a:b' }, { id: 'x', tool: 'a:c', args: { x: '{{prev.no}}' } }] as const
  const stopped = await runChain(steps, run)
  assert.deepEqual([stopped.error?.code, stopped.error?.details?.step], ['REFERENCE_INVALID', 'x'])
  const went = await runChain([steps[0], { ...steps[1], onError: 'continue' }], run)
  assert.deepEqual([went.status, went.output], ['ok', null])
  assert.deepEqual(
    calls.map((call) => call.tool),
    ['a:b', 'a:b'],
  )
})

test('a skipped step has output null and does not change prev', async () => {
  const { run, calls } = fakeRun({})
  const result = await runChain(
    [
      { id: 'a', tool: 'a:b', args: { n: 1 } },
      { id: 'b', tool: 'a:b', when: { value: '{{prev.n}}', greaterThan: 1 } },
      { tool: 'a:b', args: { prev: '{{prev}}', b: '{{steps.b.output}}', s: '{{steps.b.status}}' } },
    ],
    run,
  )
  assert.deepEqual(states(result.steps), ['ok', 'skipped', 'ok'])
  assert.deepEqual(calls[1]?.args, { prev: { n: 1 }, b: null, s: 'skipped' })
})

test('a chain whose steps are all skipped is ok with output null', async () => {
  const { run } = fakeRun({})
  const result = await runChain(
    [
      { tool: 'a:b', when: false },
      { tool: 'a:b', when: false, usePrevious: true },
    ],
    run,
  )
  assert.deepEqual([result.status, result.output], ['ok', null])
})

test('a chain that is cancelled within a step ends as cancelled, whatever its onError', async () => {
  const stop = new AbortController()
  const { run } = fakeRun({ 'a:wait': after(stop, untilCancelled) })
  const steps: ChainStep[] = [{ tool: 'a:b' }, { id: 'w', tool: 'a:wait', onError: 'continue' }, { tool: 'a:b' }]
  const result = await runChain(steps, run, { signal: stop.signal })
  assert.deepEqual([result.status, result.error?.code, result.error?.details?.step], ['cancelled', 'CANCELLED', 'w'])
  assert.deepEqual(states(result.steps), ['ok', 'failed', 'pending'])
})

test('a chain that is cancelled between steps keeps the output of the step that was running', async () => {
  const stop = new AbortController()
  const { run, calls } = fakeRun({ 'a:b': after(stop, echo) })
  const result = await runChain([{ tool: 'a:b', args: { n: 1 } }, { tool: 'a:b' }], run, { signal: stop.signal })
  assert.deepEqual([result.status, states(result.steps), calls.length], ['cancelled', ['ok', 'pending'], 1])
  assert.deepEqual([result.steps[0]?.output, result.error?.effect], [{ n: 1 }, 'possible'])
  const never = await runChain([{ tool: 'a:b' }], run, { signal: AbortSignal.abort() })
  assert.deepEqual([never.status, never.error?.effect, calls.length], ['cancelled', 'none', 1])
})

test('the call limit ends the chain, whatever its onError', async () => {
  const { run, calls } = fakeRun({})
  const steps: ChainStep[] = [{ tool: 'a:b' }, { tool: 'a:b' }, { tool: 'a:b', onError: 'continue' }, { tool: 'a:b' }]
  const result = await runChain(steps, run, { limits: { calls: 2 } })
  assert.deepEqual([result.error?.code, states(result.steps)], ['LIMIT_EXCEEDED', ['ok', 'ok', 'failed', 'pending']])
  assert.equal(calls.length, 2)
})

test('a run function that rejects against its contract still gives a ChainResult', async () => {
  const result = await runChain([{ tool: 'a:b' }], () => Promise.reject(new Error('boom')))
  assert.deepEqual([result.status, result.error?.code, result.error?.cause?.message], ['failed', 'INTERNAL', 'boom'])
})

test('onStep receives every step as it ends, and an error that it throws is ignored', async () => {
  const observed: string[] = []
  const result = await runChain([{ tool: 'a:b' }, { tool: 'a:b', when: false }], fakeRun({}).run, {
    onStep: (step) => {
      observed.push(`${step.id} ${step.state}`)
      throw new Error('observer')
    },
  })
  assert.deepEqual([observed, result.status], [['step1 ok', 'step2 skipped'], 'ok'])
})

test('changes to the steps or arguments of a running chain have no effect', async () => {
  const steps = [
    { tool: 'a:b', args: { list: [1] } },
    { tool: 'a:c', args: { list: '{{prev.list}}', n: 1 } },
  ]
  const { run, calls } = fakeRun({
    'a:b': (args) => {
      Object.assign(steps[1] ?? {}, { tool: 'a:evil' })
      return { list: args.list ?? null }
    },
    'a:c': (args) => {
      ;(args.list as number[]).push(2)
      return echo(args, { signal: AbortSignal.any([]), stepId: '', decisive: true })
    },
  })
  const result = await runChain(steps, run)
  assert.deepEqual(
    calls.map((call) => call.tool),
    ['a:b', 'a:c'],
  )
  assert.deepEqual(result.steps[0]?.output, { list: [1] })
})

test('every ChainResult matches the schema of the contract', async () => {
  const fits = compileSchema(chainResultSchema)
  const { run } = fakeRun({ 'a:fail': fail })
  const group = {
    parallel: [
      { tool: 'a:b', forEach: [1, 2] },
      { tool: 'a:fail', when: '{{input}}' },
    ],
  }
  for (const input of [true, false]) {
    const result = await runChain([{ tool: 'a:b' }, group, { tool: 'a:fail', onError: 'continue' }], run, { input })
    assert.deepEqual(fits.issues(JSON.parse(JSON.stringify(result))), [])
  }
  assert.deepEqual(fits.issues(await runChain([{}] as never, run)), [])
})

test('the timeout of a chain ends it with the outputs so far, and an invalid timeout is refused', async () => {
  const { run } = fakeRun({ 'a:slow': untilCancelled })
  const chain = await runChain([{ tool: 'a:quick' }, { tool: 'a:slow' }, { tool: 'a:never' }], run, { timeoutMs: 5 })
  assert.equal(chain.status, 'timeout')
  assert.equal(chain.error?.code, 'TIMEOUT')
  assert.deepEqual(states(chain.steps), ['ok', 'failed', 'pending'])
  const wrong = await runChain([{ tool: 'a:quick' }], run, { timeoutMs: -1 })
  assert.equal(wrong.error?.code, 'CHAIN_INVALID')
})
