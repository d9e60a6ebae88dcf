import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPatience } from './spin-policy.ts'

test('who looks in vain looks only now and then, and one look that pays makes up for all', () => {
  const patience = createPatience()
  const looks = (count: number): number => {
    let looked = 0
    for (let wait = 0; wait < count; wait += 1) {
      if (!patience.looks()) continue
      looked += 1
      patience.learn(false)
    }
    return looked
  }
  assert.equal(looks(8), 8)
  assert.equal(looks(160), 10)
  patience.learn(true)
  assert.equal(looks(8), 8)
})
