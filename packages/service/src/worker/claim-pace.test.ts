import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createClaimPace } from './worker.ts'

const none = () => 0

test('no call is claimed ahead before one has ended, and then as many as the slots run in a tenth of a second', () => {
  const pace = createClaimPace(8, 500)
  assert.equal(pace.ahead(false, none), 0)
  pace.ran(10)
  assert.equal(pace.ahead(false, none), 80)
  assert.equal(pace.ahead(true, none), 8)
})

test('slots whose calls run much longer than earlier ones do not count, so that nothing is claimed ahead of long calls', () => {
  const pace = createClaimPace(8, 500)
  for (let n = 0; n < 150; n++) pace.ran(1)
  assert.equal(pace.ahead(false, none), 500)
  assert.equal(
    pace.ahead(false, (ms) => (ms < 100 ? 8 : 0)),
    0,
  )
  assert.equal(
    pace.ahead(false, (ms) => (ms < 100 ? 7 : 0)),
    100,
  )
})
