import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Json } from '@gantry/contract'
import fc from 'fast-check'
import { canonicalJson } from '../json/canonical.ts'
import { contains, same } from './condition.ts'
import { chainLimits, createAllowance } from './limits.ts'

test('two values are equal if their canonical JSON is equal', () => {
  const key = fc.constantFrom('a', 'b', 'toString')
  const value = fc.letrec((tie) => ({
    any: fc.oneof(
      { maxDepth: 3 },
      fc.constantFrom<unknown>(null, 0, -0, 1, '', '1', true, false),
      fc.array(tie('any'), { maxLength: 3 }),
      fc.dictionary(key, tie('any')),
    ),
  })).any as fc.Arbitrary<Json>
  fc.assert(
    fc.property(value, value, (left, right) => {
      const allowance = createAllowance('evaluationBytes', chainLimits())
      assert.equal(same(left, right, allowance), canonicalJson(left) === canonicalJson(right))
      assert.equal(same(left, structuredClone(left), allowance), true)
    }),
  )
})

test('contains finds a long substring exactly when String.includes does', () => {
  const text = fc.array(fc.constantFrom('a', 'b'), { minLength: 500, maxLength: 600 }).map((units) => units.join(''))
  fc.assert(
    fc.property(text, fc.nat(200), fc.boolean(), (whole, start, other) => {
      const part = `${whole.slice(start, start + 290)}${other ? 'ab' : ''}`
      assert.equal(contains(whole, part), whole.includes(part))
    }),
  )
})

test('contains takes linear time for a long substring that nearly matches everywhere', () => {
  assert.equal(contains('a'.repeat(2_000_000), `b${'a'.repeat(1_000_000)}`), false)
})
