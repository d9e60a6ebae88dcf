import assert from 'node:assert/strict'
import { test } from 'node:test'
import { showBytes } from '@gantry/core/internal/artifacts/show-bytes'
import fc from 'fast-check'
import { searchText } from './artifact-tools.ts'

/** Content in chunks of the given sizes, repeated. */
async function* inPieces(content: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer> {
  for (let at = 0, turn = 0; at < content.length; turn++) {
    const size = sizes[turn % sizes.length] ?? 1
    yield content.subarray(at, at + size)
    at += size
  }
}

/** The same by searching the whole content at once. */
function expected(content: string, text: string): readonly (readonly [number, number])[] {
  const found: [number, number][] = []
  for (let at = content.indexOf(text); at >= 0; at = content.indexOf(text, at + text.length)) {
    const before = content.slice(0, at)
    found.push([before.split('\n').length, Buffer.byteLength(before)])
  }
  return found
}

test('every match is found once, with its line and offset, however the content is chunked', async () => {
  const contents = fc.string({ unit: fc.constantFrom('a', 'b', '\n', 'ä', '😀'), maxLength: 60 })
  const needles = fc.string({ unit: fc.constantFrom('a', 'b', '\n', 'ä', '😀'), minLength: 1, maxLength: 4 })
  const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 })
  await fc.assert(
    fc.asyncProperty(contents, needles, sizes, fc.nat({ max: 6 }), async (content, text, pieces, context) => {
      const search = { text, limit: 1_000, context, from: 0 }
      const { matches, next } = await searchText(inPieces(Buffer.from(content), pieces), search)
      const places = matches.map(({ line, offset }) => [line, offset])
      assert.deepEqual([places, next], [expected(content, text), undefined])
      for (const match of matches) assert.ok(match.text.includes(text) && !match.text.includes('\ufffd'), match.text)
    }),
  )
})

test('a match has its context, and no character is split', async () => {
  const content = Buffer.from(`${'ä'.repeat(50)} needle ${'😀'.repeat(50)}`)
  const { matches } = await searchText(inPieces(content, [7]), { text: 'needle', limit: 9, context: 6, from: 0 })
  assert.deepEqual(matches, [{ line: 1, offset: 101, text: 'ää needle 😀' }])
})

test('the search stops at the limit and can be resumed there', async () => {
  const content = Buffer.from('one\ntwo\none\ntwo\none')
  const first = await searchText(inPieces(content, [4]), { text: 'one', limit: 2, context: 0, from: 0 })
  assert.deepEqual(first, {
    matches: [
      { line: 1, offset: 0, text: 'one' },
      { line: 3, offset: 8, text: 'one' },
    ],
    next: 16,
  })
  const second = await searchText(inPieces(content, [4]), { text: 'one', limit: 2, context: 0, from: 16 })
  assert.deepEqual(second, { matches: [{ line: 5, offset: 16, text: 'one' }] })
})

test('the matches are bounded, and content is not read further than needed', async () => {
  let pieces = 0
  const endless = async function* () {
    for (;;) {
      pieces++
      yield Buffer.alloc(65_536, '\0a')
    }
  }
  const { matches, next } = await searchText(endless(), { text: 'a', limit: 100, context: 500, from: 0 })
  assert.ok(Buffer.byteLength(JSON.stringify(matches)) < 60_000)
  assert.equal(next, (matches.at(-1)?.offset ?? 0) + 2)
  assert.equal(pieces, 1)
})

test('text that is read in parts is complete when the parts are joined, and no character is split', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 80 })
  fc.assert(
    fc.property(text, fc.integer({ min: 4, max: 20 }), (content, length) => {
      const bytes = Buffer.from(content)
      let joined = ''
      for (let at = 0; at < bytes.length; ) {
        const part = bytes.subarray(at, at + length)
        const shown = showBytes(part, at, at + part.length >= bytes.length)
        assert.ok('text' in shown && shown.start === at && shown.end > at)
        joined += shown.text
        at = shown.end
      }
      assert.equal(joined, content)
    }),
  )
})

test('a part that begins within a character begins after it, and bytes that are not text are base64', () => {
  const bytes = Buffer.from('aäb')
  assert.deepEqual(showBytes(bytes.subarray(2), 2, true), { text: 'b', start: 3, end: 4 })
  const binary = Buffer.from([0xff, 0xfe, 0x61])
  assert.deepEqual(showBytes(binary, 5, true), { base64: binary.toString('base64'), start: 5, end: 8 })
  const cutOff = Buffer.from('ä').subarray(0, 1)
  assert.deepEqual(showBytes(cutOff, 0, true), { base64: cutOff.toString('base64'), start: 0, end: 1 })
})

test('text that is long as JSON is returned in a shorter part', () => {
  const shown = showBytes(Buffer.alloc(32_768, 0), 0, true)
  assert.ok('text' in shown && JSON.stringify(shown.text).length < 50_000 && shown.end > 4_000)
})
