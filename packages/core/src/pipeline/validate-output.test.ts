import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as v from 'valibot'
import { runIt, tool } from './pipeline.fixture.ts'

test('invalid output is kept with a warning, or fails a strict tool and is kept', async () => {
  const outputSchema = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] } as const
  const lenient = await runIt(tool(() => ({ n: 'x' }), { outputSchema }))
  assert.equal(lenient.status, 'ok')
  assert.equal(lenient.warnings[0]?.code, 'OUTPUT_INVALID')
  assert.equal(lenient.warnings[0]?.issues?.[0]?.path, '/n')
  const strict = await runIt(tool(() => ({ n: 'x' }), { outputSchema, output: 'strict' }))
  assert.equal(strict.error?.code, 'OUTPUT_INVALID')
  assert.deepEqual(strict.output, { n: 'x' })
})

test('a Standard Schema validates the output with its own validator, and the output is not transformed', async () => {
  const outputSchema = v.object({ n: v.pipe(v.number(), v.minValue(2)) })
  const good = await runIt(tool(() => ({ n: 2, more: true }), { outputSchema }))
  assert.deepEqual(good.output, { n: 2, more: true })
  assert.deepEqual(good.warnings, [])
  const bad = await runIt(tool(() => ({ n: 1 }), { outputSchema }))
  assert.equal(bad.warnings[0]?.issues?.[0]?.path, '/n')
})
