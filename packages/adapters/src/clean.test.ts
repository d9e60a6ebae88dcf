import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cleanSchema, visible } from './clean.ts'

test('visible removes invisible characters and keeps every readable script', () => {
  for (const text of ['Grüße, 世界! Привет «мир» — العربية\tเด็ก\n🙂', 'עברית', 'हिन्दी', '한국어', 'e\u0301']) {
    assert.equal(visible(text), text)
  }
  for (const hidden of ['\u0000', '\u0007', '\u001B', '\u007F', '\u00AD', '\u200B', '\u200E', '\u202E', '\u2066']) {
    assert.equal(visible(`a${hidden}b`), 'ab', hidden.codePointAt(0)?.toString(16))
  }
  for (const hidden of [
    '\u2028',
    '\u3164',
    '\uE000',
    '\uFE0F',
    '\uFEFF',
    '\uD800',
    '\u{E0041}',
    '\u{E0100}',
    '\u{F0000}',
  ]) {
    assert.equal(visible(`a${hidden}b`), 'ab', hidden.codePointAt(0)?.toString(16))
  }
})

test('cleanSchema cleans titles and descriptions, and keeps and reports names, values and defaults', () => {
  const reported: string[] = []
  const schema = {
    type: 'object',
    description: 'a\u200B',
    properties: {
      description: { type: 'string', title: 'b\u200B', enum: ['c\u200B'], default: { description: 'd\u200B' } },
      'e\u200B': { not: { $comment: 'f\u200B' } },
    },
  }
  const cleaned = cleanSchema(schema, '', ({ path, done }) =>
    reported.push(`${path.replaceAll('\u200B', '·')} ${done}`),
  )
  assert.deepEqual(cleaned, {
    type: 'object',
    description: 'a',
    properties: {
      description: { type: 'string', title: 'b', enum: ['c\u200B'], default: { description: 'd\u200B' } },
      'e\u200B': { not: { $comment: 'f' } },
    },
  })
  assert.deepEqual(reported, [
    '/description dropped',
    '/properties/description/title dropped',
    '/properties/description/enum/0 kept',
    '/properties/description/default/description kept',
    '/properties/e· kept',
    '/properties/e·/not/$comment dropped',
  ])
})
