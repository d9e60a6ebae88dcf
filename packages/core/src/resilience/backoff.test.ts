import assert from 'node:assert/strict'
import { test } from 'node:test'
import { backoffMs, pause } from './retry.ts'

test('the delay doubles up to its cap, with full jitter', () => {
  const rule = { attempts: 9, delayMs: 100, maxDelayMs: 500 }
  assert.deepEqual(
    [1, 2, 3, 4, 5].map((attempt) => backoffMs(rule, attempt, () => 1)),
    [100, 200, 400, 500, 500],
  )
  assert.equal(
    backoffMs(rule, 3, () => 0.5),
    200,
  )
  assert.equal(
    backoffMs(rule, 3, () => 0),
    0,
  )
})

test('a pause rejects with the abort reason as soon as its signal aborts', async () => {
  const controller = new AbortController()
  const waiting = pause(60_000, controller.signal)
  controller.abort(new Error('enough'))
  await assert.rejects(waiting, /enough/)
  await assert.rejects(pause(1, controller.signal), /enough/)
})
