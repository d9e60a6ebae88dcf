import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRate } from './rate.ts'

test('an origin may have its burst, then as many as fit the time', () => {
  let time = 0
  const rate = createRate({ perSecond: 2, burst: 3 }, () => time)
  assert.deepEqual(
    [1, 2, 3].map(() => rate.take('a')),
    [0, 0, 0],
  )
  assert.equal(rate.take('a'), 500)
  assert.equal(rate.take('b'), 0)
  time = 400
  assert.equal(rate.take('a'), 100)
  time = 500
  assert.deepEqual([rate.take('a'), rate.take('a')], [0, 500])
  time = 1_000_000
  assert.deepEqual(
    [1, 2, 3, 4].map(() => rate.take('a')),
    [0, 0, 0, 500],
  )
})

test('origins that are quiet are forgotten, those that are not stay limited', () => {
  let time = 0
  const rate = createRate({ perSecond: 1, burst: 1 }, () => time)
  for (let index = 0; index < 999; index++) rate.take(`quiet-${index}`)
  time = 5_000
  rate.take('busy')
  for (let index = 0; index < 2_000; index++) rate.take(`more-${index}`)
  assert.ok(rate.take('busy') > 0)
})
