import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runIt, tool } from './pipeline.fixture.ts'

test('a sync value, a promise and a thenable give the same result', async () => {
  for (const answer of [
    { n: 1 },
    Promise.resolve({ n: 1 }),
    { then: (ok: (value: unknown) => void) => ok({ n: 1 }) },
  ]) {
    const result = await runIt(tool(() => answer))
    assert.equal(result.status, 'ok')
    assert.deepEqual(result.output, { n: 1 })
    assert.equal(result.attempts, 1)
  }
})

test('a result names its tool, version and backend, and is plain JSON', async () => {
  const result = await runIt(tool(() => 1))
  assert.equal(result.tool?.id, 'test:it')
  assert.equal(result.tool?.version, '1.0.0')
  assert.deepEqual(result.backend, { kind: 'local', name: 'local' })
  assert.deepEqual(JSON.parse(JSON.stringify(result)), result)
})

test('a tool receives its own copy of the arguments', async () => {
  const args = { list: [1] }
  const result = await runIt(
    tool((given) => (given as { list: number[] }).list.push(2)),
    args,
  )
  assert.equal(result.output, 2)
  assert.deepEqual(args, { list: [1] })
})

test('arguments that are not an object, too deep or too large are refused before the tool starts', async () => {
  let calls = 0
  const counting = tool(() => ++calls)
  let deep: unknown = 1
  for (let level = 0; level < 10_000; level++) deep = { deep }
  for (const args of ['text', 5, null, [1], { n: Number.NaN }, { f: () => 1 }, deep, { big: 'x'.repeat(2_000_000) }]) {
    const result = await runIt(counting, args)
    assert.equal(result.error?.code, 'INPUT_INVALID')
    assert.equal(result.error?.effect, 'none')
  }
  assert.equal(calls, 0)
  assert.equal((await runIt(counting, undefined)).status, 'ok')
})
