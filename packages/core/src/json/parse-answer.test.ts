import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseAnswer } from './parse.ts'

test('parseAnswer equals JSON.parse for text that JSON.parse reads without loss', () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      if (/[0-9]{16}/.test(text)) return
      assert.deepEqual(parseAnswer(text), JSON.parse(text))
    }),
  )
})

test('parseAnswer returns an integer beyond double precision as a string, at any depth, and no other number', () => {
  const text =
    '{"id":1234567890123456789,"list":[-9007199254740993,9007199254740991],"x":1.2345678901234567,"s":"12345678901234567890"}'
  assert.deepEqual(parseAnswer(text), {
    id: '1234567890123456789',
    list: ['-9007199254740993', 9007199254740991],
    x: 1.2345678901234567,
    s: '12345678901234567890',
  })
})

test('parseAnswer throws a SyntaxError for text that is not JSON', () => {
  for (const text of ['', '{', '1 2', '[1234567890123456789,]']) assert.throws(() => parseAnswer(text), SyntaxError)
})
