import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSpinPolicy } from './mailbox.ts'

test('repeated failures make spinning rare, and one success resets the count', () => {
  const spinPolicy = createSpinPolicy()
  const shouldSpin = (count: number): number => {
    let looked = 0
    for (let wait = 0; wait < count; wait += 1) {
      if (!spinPolicy.shouldSpin()) continue
      looked += 1
      spinPolicy.record(false)
    }
    return looked
  }
  assert.equal(shouldSpin(8), 8)
  assert.equal(shouldSpin(160), 10)
  spinPolicy.record(true)
  assert.equal(shouldSpin(8), 8)
})
