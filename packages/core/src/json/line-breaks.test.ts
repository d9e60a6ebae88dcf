import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { joinLines } from './entities.ts'

test('lines are joined without what breaks and indents them', () => {
  assert.equal(joinLines('ab\ncd\r\n  ef\rgh')?.text, 'abcdefgh')
  assert.equal(joinLines('ab\\ncd\\r\\nef')?.text, 'abcdef')
  assert.equal(joinLines('one line'), undefined)
  assert.equal(joinLines('a path C:\\temp'), undefined)
})

test('every character of the joined text is found again where it came from', () => {
  const piece = fc.constantFrom('a', 'b', ' ', '\n', '\r', '\\', 'n', '\t', '0')
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40, size: 'max' }), (pieces) => {
      const text = pieces.join('')
      const joined = joinLines(text)
      if (joined === undefined) return
      const places = Array.from(joined.text, (_, index) => joined.place(index))
      assert.equal(places.map((place) => text[place]).join(''), joined.text)
      assert.deepEqual(
        places,
        places.toSorted((a, b) => a - b),
      )
    }),
  )
})
