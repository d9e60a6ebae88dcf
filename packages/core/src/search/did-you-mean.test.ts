import assert from 'node:assert/strict'
import { test } from 'node:test'
import { didYouMean } from './near.ts'

test('didYouMean suggests the known name nearest to a typo, and nothing for an unrelated word', () => {
  assert.equal(didYouMean('timeoutMS', ['title', 'timeoutMs']), ' (did you mean "timeoutMs"?)')
  assert.equal(didYouMean('colour', ['title', 'timeoutMs']), '')
  assert.equal(didYouMean('', ['a']), '')
})
