import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { after, echo, fail, fakeRun, untilCancelled } from './chain.fixture.ts'
import { runChain } from './chain.ts'

test('group members run in parallel with the scope of the group, and their outputs are listed by id', async () => {
  const { run, calls } = fakeRun({})
  const result = await runChain(
    [
      { id: 'start', tool: 'a:b', args: { n: 1 } },
      {
        parallel: [
          { id: 'left', tool: 'a:b', args: { n: '{{prev.n}}' } },
          { tool: 'a:b', usePrevious: true },
        ],
      },
      {
        tool: 'a:b',
        args: { left: '{{prev.left.n}}', also: '{{steps.left.output.n}}', right: '{{prev.step2_2.previous}}' },
      },
    ],
    run,
  )
  assert.deepEqual(result.steps[1]?.output, { left: { n: 1 }, step2_2: { previous: { n: 1 } } })
  assert.deepEqual(calls[3]?.args, { left: 1, also: 1, right: { n: 1 } })
  assert.deepEqual([result.steps[1]?.results, result.steps[1]?.steps?.map((step) => step.results.length)], [[], [1, 1]])
})

test('a group has the same output in whatever order its members end, within its concurrency limit', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 1, max: 4 }),
      async (s, concurrency, parallel) => {
        let running = 0
        let most = 0
        const { run } = fakeRun({
          'a:one': async ({ n }) => {
            most = Math.max(most, ++running)
            await s.schedule(Promise.resolve())
            running -= 1
            return n ?? null
          },
        })
        const members = ['a', 'b', 'c', 'd', 'e'].map((id) => ({ id, tool: 'a:one', args: { n: id } }))
        const group = { parallel: members, concurrency: Math.min(concurrency, parallel) }
        const result = await s.waitFor(runChain([group, { tool: 'a:b' }], run, { limits: { parallel } }))
        assert.deepEqual(result.steps[0]?.output, { a: 'a', b: 'b', c: 'c', d: 'd', e: 'e' })
        assert.ok(most <= Math.min(concurrency, parallel))
      },
    ),
  )
})

test('the parallel limit covers the elements of all members', async () => {
  let running = 0
  let most = 0
  const { run } = fakeRun({
    'a:one': async () => {
      most = Math.max(most, ++running)
      await Promise.resolve()
      running -= 1
      return null
    },
  })
  const member = { tool: 'a:one', forEach: [1, 2, 3, 4], concurrency: 3 }
  const result = await runChain([{ parallel: [member, member] }], run, { limits: { parallel: 3 } })
  assert.deepEqual([result.status, most], ['ok', 3])
})

test('calls that wait for a slot are not made after a sibling failed', async () => {
  const { run, calls } = fakeRun({ 'a:one': fail })
  const member = { tool: 'a:one', forEach: [1, 2], concurrency: 2 }
  const result = await runChain([{ parallel: [member, member] }], run, { limits: { parallel: 2 } })
  assert.deepEqual([result.status, calls.length], ['failed', 2])
})

test('a failed member cancels its siblings and fails the group', async () => {
  const { run } = fakeRun({ 'a:fail': fail, 'a:wait': untilCancelled })
  const result = await runChain(
    [
      {
        id: 'g',
        concurrency: 3,
        parallel: [
          { id: 'done', tool: 'a:b' },
          { id: 'wait', tool: 'a:wait' },
          { id: 'bad', tool: 'a:fail' },
          { id: 'late', tool: 'a:fail' },
        ],
      },
      { tool: 'a:b' },
    ],
    run,
  )
  const [group] = result.steps
  assert.deepEqual([result.status, result.error?.details?.step, group?.state], ['failed', 'bad', 'failed'])
  assert.equal(group?.steps?.[1]?.error?.code, 'CANCELLED')
  assert.deepEqual(group?.steps?.map((step) => step.state).slice(0, 3), ['ok', 'failed', 'failed'])
  assert.equal(result.steps[1]?.state, 'pending')
})

test('a failed member with onError does not fail the group', async () => {
  const { run } = fakeRun({ 'a:fail': fail })
  const result = await runChain(
    [
      {
        parallel: [
          { id: 'x', tool: 'a:fail', onError: { output: 0 } },
          { id: 'y', tool: 'a:b' },
        ],
      },
    ],
    run,
  )
  assert.deepEqual([result.status, result.output, result.steps[0]?.state], ['ok', { x: 0, y: {} }, 'ok'])
  assert.equal(result.steps[0]?.steps?.[0]?.state, 'failed')
})

test('a skipped group skips its members', async () => {
  const { run, calls } = fakeRun({})
  const result = await runChain(
    [
      { when: false, parallel: [{ id: 'x', tool: 'a:b' }] },
      { tool: 'a:c', args: { x: '{{steps.x.status}}' } },
    ],
    run,
  )
  assert.deepEqual([result.output, calls.length], [{ x: 'skipped' }, 1])
})

test('a member can be skipped, and an invalid condition fails its member', async () => {
  const { run } = fakeRun({})
  const member = { id: 'x', tool: 'a:b', when: { value: 1, in: 2 } }
  const skipped = await runChain([{ parallel: [{ ...member, when: false }] }], run)
  const wrong = await runChain([{ parallel: [member] }], run)
  assert.deepEqual([skipped.status, skipped.output], ['ok', { x: null }])
  assert.deepEqual([wrong.status, wrong.error?.code, wrong.error?.details?.step], ['failed', 'CHAIN_INVALID', 'x'])
})

test('a group fails when the chain is cancelled between the elements of a member', async () => {
  const stop = new AbortController()
  const { run } = fakeRun({ 'a:one': after(stop, echo) })
  const result = await runChain([{ parallel: [{ id: 'x', tool: 'a:one', forEach: [1, 2] }] }], run, {
    signal: stop.signal,
  })
  const [group] = result.steps
  assert.deepEqual(
    [result.status, group?.state, group?.steps?.[0]?.elements],
    ['cancelled', 'failed', ['ok', 'pending']],
  )
})

test('the error of a group is the failure that ended it, even when a cancelled sibling ends first', async () => {
  const { run } = fakeRun({ 'a:fail': fail, 'a:wait': untilCancelled })
  const result = await runChain([{ parallel: [{ tool: 'a:wait' }, { id: 'x', tool: 'a:fail', forEach: [1] }] }], run)
  assert.deepEqual([result.error?.code, result.steps[0]?.error?.code], ['BACKEND_FAILED', 'BACKEND_FAILED'])
})

test('members that did not start stay pending when the chain is cancelled', async () => {
  const stop = new AbortController()
  const { run } = fakeRun({ 'a:one': after(stop, echo) })
  const parallel = [
    { id: 'x', tool: 'a:one' },
    { id: 'y', tool: 'a:one' },
  ]
  const result = await runChain([{ parallel, concurrency: 1 }], run, { signal: stop.signal })
  assert.deepEqual([result.status, result.error?.details?.step], ['cancelled', 'y'])
  assert.deepEqual(
    result.steps[0]?.steps?.map((step) => step.state),
    ['ok', 'pending'],
  )
})
