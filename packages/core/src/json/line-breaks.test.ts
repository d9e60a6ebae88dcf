import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { joinLines } from './secret-forms.ts'

test('joinLines drops line breaks and indentation, escaped or not', () => {
  assert.equal(joinLines('ab\ncd\r\n  ef\rgh')?.text, 'abcdefgh')
  assert.equal(joinLines('ab\\ncd\\r\\nef')?.text, 'abcdef')
  assert.equal(joinLines('one line'), undefined)
  assert.equal(joinLines('a path C:\\temp'), undefined)
})

test('joinLines maps every character of the joined text to its index in the original', () => {
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
