import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChainStep, type Result, ToolError } from '@gantry/contract'
import { demoTools } from '@gantry/tools/internal/demo'
import fc from 'fast-check'
import { createExecutor } from '../executor.ts'
import { defineTool } from '../tools/tool.ts'
import { fail, fakeRun, resultOf, untilCancelled } from './chain.fixture.ts'
import { runChain, type StepMiddleware } from './chain.ts'

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
  { tool: 't:x', args: { g: '{{prev}}' } },
]

test('the middleware wraps every call with a unique step id and index, and the bound arguments', async () => {
  const { run, calls } = fakeRun({})
  const seen: string[] = []
  const around: StepMiddleware = async ({ stepId, index, tool, args }, call) => {
    seen.push(`${stepId}${index === undefined ? '' : `.${index}`}`)
    const result = await call()
    assert.equal(tool, 't:x')
    assert.deepEqual(result.output, args)
    return result
  }
  const result = await runChain(steps, run, { around })
  assert.equal(result.status, 'ok')
  const names = ['a', 'each.0', 'each.1', 'each.2', 'l', 'r.0', 'r.1', 'r.2', 'step4']
  assert.deepEqual(seen.toSorted(), names.toSorted())
  assert.equal(calls.length, names.length)
  assert.deepEqual(result.output, (await runChain(steps, fakeRun({}).run)).output)
})

test('any subset of stored results can replace calls without changing the output of the chain', async () => {
  const kept = new Map<string, Result>()
  const nameOf = ({ stepId, index }: Parameters<StepMiddleware>[0]): string => `${stepId} ${index}`
  const keep: StepMiddleware = async (step, call) => {
    const result = await call()
    kept.set(nameOf(step), JSON.parse(JSON.stringify(result)))
    return result
  }
  const whole = await runChain(steps, fakeRun({}).run, { around: keep })
  const all = [...kept.keys()]
  assert.equal(all.length, 9)
  await fc.assert(
    fc.asyncProperty(fc.subarray(all), async (have) => {
      const { run, calls } = fakeRun({})
      const around: StepMiddleware = async (step, call) => {
        const known = have.includes(nameOf(step)) ? kept.get(nameOf(step)) : undefined
        return known ?? call()
      }
      const again = await runChain(steps, run, { around })
      assert.deepEqual(again.output, whole.output)
      assert.equal(calls.length, all.length - have.length)
    }),
  )
})

test('the middleware sets the call id and idempotency key that the tool sees', async () => {
  const seen: unknown[] = []
  const note = defineTool({
    namespace: 'test',
    name: 'note',
    description: 'Notes who calls.',
    inputSchema: { type: 'object' },
    run: (_args, { callId, idempotencyKey, identity }) => {
      seen.push([callId, idempotencyKey, identity.principal])
    },
  })
  const gantry = createExecutor({ tools: [note, ...demoTools()] })
  const identity = { principal: 'ada', tenant: 'lab', permissions: [] }
  const around: StepMiddleware = ({ stepId }, call) =>
    call({ callId: `chain.${stepId}`, idempotencyKey: `key-${stepId}` })
  const result = await gantry.chain([{ tool: 'test:note' }, { tool: 'demo:add', args: { a: 1, b: 2 } }], {
    around,
    identity,
  })
  assert.deepEqual([result.status, result.output], ['ok', { result: 3 }])
  assert.deepEqual(seen, [['chain.step1', 'key-step1', 'ada']])
  assert.equal(result.steps[1]?.results[0]?.callId, 'chain.step2')
  await gantry.close()
})

test('an error that the middleware throws fails the step; onError handles it unless its code is CANCELLED', async () => {
  const around = (code: 'STORE_UNAVAILABLE' | 'CANCELLED'): StepMiddleware => {
    return async ({ stepId }, call) => {
      if (stepId === 'step1') throw new ToolError(code, 'No.', { details: { lost: true } })
      return call()
    }
  }
  const two: ChainStep[] = [{ tool: 'a:b', onError: 'continue' }, { tool: 'a:b' }]
  const { run, calls } = fakeRun({})
  const survived = await runChain(two, run, { around: around('STORE_UNAVAILABLE') })
  assert.deepEqual([survived.status, survived.steps[0]?.error?.code, calls.length], ['ok', 'STORE_UNAVAILABLE', 1])
  const ended = await runChain(two, run, { around: around('CANCELLED') })
  assert.deepEqual([ended.status, ended.error?.details, calls.length], ['cancelled', { lost: true, step: 'step1' }, 1])
})

test('the signal of a call is aborted when another call ends the chain', async () => {
  const { run } = fakeRun({ 'a:wait': untilCancelled, 'a:fail': fail })
  const seen: string[] = []
  const around: StepMiddleware = async (step, call) => {
    const result = await call()
    seen.push(`${step.stepId} ${result.status} ${step.signal.aborted} ${step.decisive}`)
    return result
  }
  const group: ChainStep[] = [
    {
      parallel: [
        { id: 'w', tool: 'a:wait', onError: 'continue' },
        { id: 'f', tool: 'a:fail' },
      ],
    },
  ]
  const result = await runChain(group, run, { around })
  assert.equal(result.error?.code, 'BACKEND_FAILED')
  assert.deepEqual(seen, ['f failed false true', 'w cancelled true false'])
})

test('a result that the middleware returns counts against outputBytes', async () => {
  const around: StepMiddleware = async () => resultOf('ok', 'x'.repeat(100))
  const result = await runChain([{ tool: 'a:b', forEach: [1, 2, 3] }], fakeRun({}).run, {
    around,
    limits: { outputBytes: 500 },
  })
  assert.equal(result.error?.code, 'LIMIT_EXCEEDED')
})
