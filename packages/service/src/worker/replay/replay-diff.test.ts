import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChainResult, Json } from '@gantry/contract'
import { someResult } from '../../storage/calls.fixture.ts'
import { differencesOf } from './replay.ts'

test('ids, times, attempts and costs are no differences', () => {
  const before = someResult({ output: { b: 1, a: [1, { c: null }] } })
  const later = {
    callId: 'c2',
    attempts: 3,
    startedAt: '2027-01-01T00:00:00.000Z',
    durationMs: 9,
    artifacts: [],
    effects: [],
  }
  assert.deepEqual(differencesOf(before, { ...before, ...later, output: { a: [1, { c: null }], b: 1 } }), [])
})

test('each difference has its JSON pointer and both values, or the one that exists', () => {
  const before = someResult({ output: { same: 1, 'a/b~c': 1, list: [1, 2], gone: true, kind: { x: 1 } } })
  const after = someResult({ output: { same: 1, 'a/b~c': 2, list: [1, 2, 3], kind: [1], __proto__: null } as Json })
  assert.deepEqual(differencesOf(before, after), [
    { path: '/output/a~1b~0c', before: 1, after: 2 },
    { path: '/output/list/2', after: 3 },
    { path: '/output/gone', before: true },
    { path: '/output/kind', before: { x: 1 }, after: [1] },
  ])
})

test('a warning of the pipeline is a difference, a hint of the service is not', () => {
  const issue = { code: 'OUTPUT_INVALID', message: 'It does not fit.' } as const
  const hint = { code: 'RESULT_TOO_LARGE', message: 'It is kept elsewhere.' } as const
  const [before, after] = [someResult({ warnings: [hint] }), someResult({ warnings: [issue] })]
  assert.deepEqual(differencesOf(before, after), [{ path: '/warnings/0', after: issue }])
})

test('long values are truncated and long lists end, so that a response stays small', () => {
  const list = (value: string): Json => Array.from({ length: 5_000 }, () => value)
  const found = differencesOf(someResult({ output: list('x'.repeat(5_000)) }), someResult({ output: list('y') }))
  assert.equal(found.length, 100)
  assert.ok(JSON.stringify(found).length < 150_000)
})

test('steps of a chain are compared one by one, in groups too', () => {
  const step = (output: Json) =>
    ({ id: 'a', state: 'ok', output, results: [someResult({ output })], durationMs: 1 }) as const
  const chain = (output: Json): ChainResult => ({
    chainId: 'c',
    status: 'ok',
    output: 1,
    startedAt: '2026-01-01T00:00:00.000Z',
    durationMs: 1,
    steps: [{ id: 'group', state: 'ok', output: null, results: [], steps: [step(output)], durationMs: 1 }],
  })
  assert.deepEqual(
    differencesOf(chain(1), chain(2)).map(({ path }) => path),
    ['/steps/0/steps/0/output', '/steps/0/steps/0/results/0/output'],
  )
})
