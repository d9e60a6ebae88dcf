import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { previewOf } from './result-parts.ts'

test('a preview is the beginning and the end of a text, two thirds and one third', () => {
  assert.deepEqual(previewOf('abcdefghij', 6), { head: 'abcd', tail: 'ij' })
  assert.deepEqual(previewOf('abc', 6), { head: 'abc', tail: '' })
  assert.deepEqual(previewOf('abcde', 6), { head: 'abcd', tail: 'e' })
  assert.deepEqual(previewOf('', 6), { head: '', tail: '' })
})

test('a preview splits no character, and repeats no part of the text', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), fc.integer({ min: 1, max: 40 }), (text, characters) => {
      const { head, tail } = previewOf(text, characters)
      assert.ok(head.isWellFormed() && tail.isWellFormed())
      assert.ok(text.startsWith(head) && text.endsWith(tail))
      assert.ok(head.length + tail.length <= Math.min(text.length, characters + 1))
    }),
  )
})
