import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tokenize } from '@gantry/core/internal/search/tokenize'
import fc from 'fast-check'
import { splitText } from './prepare.ts'
import { parseQuery } from './query.ts'

const texts = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 300 }),
      fc.constantFrom(
        '\n\n',
        '. ',
        ' ',
        '\u3000',
        '😀'.repeat(700),
        '密'.repeat(900),
        'x'.repeat(2_500),
        'word '.repeat(400),
      ),
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(''))

test('the chunks of any text join to the text, none is empty or too long, and none splits a character', () => {
  fc.assert(
    fc.property(texts, (text) => {
      const chunks = [...splitText(text)]
      assert.equal(chunks.map((chunk) => chunk.text).join(''), text)
      let at = 0
      for (const chunk of chunks) {
        assert.equal(chunk.start, at)
        assert.ok(chunk.text.length > 0 && chunk.text.length <= 1_200)
        if (text.isWellFormed()) assert.ok(chunk.text.isWellFormed())
        at += chunk.text.length
      }
    }),
  )
})

test('a chunk has no more words than the index reads, in scripts with and without spaces', () => {
  for (const text of ['密'.repeat(5_000), 'a b '.repeat(2_000), 'camelCase'.repeat(500)]) {
    for (const chunk of splitText(text)) {
      const tokens: string[] = []
      tokenize(chunk.text, tokens, 1_000)
      assert.ok(tokens.length <= 160, `${tokens.length} in ${chunk.text.slice(0, 20)}`)
    }
  }
})

test('a text is split at paragraphs before lines, sentences or words', () => {
  const paragraph = `${'A sentence of words. '.repeat(30)}end`
  const [first] = splitText(`${paragraph}\n\n${paragraph}\n\n${paragraph}`)
  assert.equal(first?.text, `${paragraph}\n\n`)
  const [sentence] = splitText('One two three four five. '.repeat(100))
  assert.match(sentence?.text ?? '', /five\. $/)
})

test('parseQuery accepts any text and limits the number of its parts', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 3_000 }), (query) => {
      const { words, phrases, without } = parseQuery(query)
      assert.ok(words.length <= 32 && phrases.length <= 8 && without.length <= 8)
      for (const part of [...words, ...phrases, ...without]) assert.ok(part.isWellFormed() && !part.includes('\0'))
    }),
  )
  assert.deepEqual(parseQuery('Fish "soup of the day" -meat - "" !'), {
    words: ['fish', 'soup', 'of', 'the', 'day'],
    phrases: ['soup of the day'],
    without: ['meat'],
  })
})
