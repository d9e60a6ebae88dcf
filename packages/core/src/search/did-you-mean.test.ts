import assert from 'node:assert/strict'
import { test } from 'node:test'
import { didYouMean } from './near.ts'

test('a word that is nearly a known one leads to it, and another says nothing', () => {
  assert.equal(didYouMean('timeoutMS', ['title', 'timeoutMs']), ' (did you mean "timeoutMs"?)')
  assert.equal(didYouMean('colour', ['title', 'timeoutMs']), '')
  assert.equal(didYouMean('', ['a']), '')
})
