import assert from 'node:assert/strict'
import { test } from 'node:test'
import { differences, diffText, visible } from './definition.ts'

const before = {
  name: 'read',
  description: 'Reads a file.\nReturns text.',
  inputSchema: { type: 'object', properties: { path: { type: 'string' } } },
}

test('each difference is reported at its deepest path', () => {
  const after = {
    ...before,
    title: 'Read',
    inputSchema: { type: 'object', properties: { path: { type: 'string', maxLength: 10 }, to: { type: 'string' } } },
  }
  assert.deepEqual(
    differences(before, after).map(({ path }) => path),
    ['/inputSchema/properties/path/maxLength', '/inputSchema/properties/to', '/title'],
  )
  assert.deepEqual(differences(before, before), [])
})

test('diffText shows the old and the new value line by line', () => {
  const list = differences(before, { ...before, description: 'Reads a file.\nSends it too.' })
  assert.equal(
    diffText(list),
    '/description\n  - Reads a file.\n  - Returns text.\n  + Reads a file.\n  + Sends it too.',
  )
})

test('control and invisible characters are escaped in the diff', () => {
  const hidden = `Reads.\u001b[2J\u200b\u202e\u{e0041}`
  const text = diffText(differences(before, { ...before, description: hidden }))
  assert.match(text, /\+ Reads\.\\u\{1b\}\[2J\\u\{200b\}\\u\{202e\}\\u\{e0041\}/)
})

test('a new definition, or one with very many differences, is shown in full', () => {
  assert.equal(differences(undefined, before)[0]?.path, '')
  const properties = Object.fromEntries(
    Array.from({ length: 300 }, (_, n) => [`p${n}`, { description: `poison ${n}` }]),
  )
  const list = differences(before, { ...before, inputSchema: { type: 'object', properties } })
  assert.deepEqual(
    list.map(({ path }) => path),
    [''],
  )
  assert.match(diffText(list), /poison 299/)
})

test('invisible characters are escaped in values and in names', () => {
  const ranges = [
    [0xfe00, 0xfe0f],
    [0xe0100, 0xe01ef],
    [0x115f, 0x1160],
    [0x3164, 0x3164],
    [0xffa0, 0xffa0],
    [0x034f, 0x034f],
    [0x17b4, 0x17b5],
    [0x2800, 0x2800],
  ] as const
  for (const [first, last] of ranges) {
    for (let code = first; code <= last; code++) {
      assert.equal(visible(`a${String.fromCodePoint(code)}b`), `a\\u{${code.toString(16)}}b`)
    }
  }
  assert.equal(visible('grüße 日本 한글 😀'), 'grüße 日本 한글 😀')
  const named = { ...before, inputSchema: { ...before.inputSchema, 'x\n  + \u001b[2J': true } }
  assert.equal(diffText(differences(before, named)), '/inputSchema/x\\u{a}  + \\u{1b}[2J\n  + true')
})
