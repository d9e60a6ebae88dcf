import assert from 'node:assert/strict'
import { test } from 'node:test'
import { clip, safeBlock, safeJson, safeLine } from './terminal.ts'

const hostile = 'a\x1b[2Jb\u009b31mc\u202ed\u2028e\r\x07\u{e0041}\u061cf\x7f'

test('safeLine escapes every control sequence', () => {
  assert.equal(safeLine('a\x1b[2J\nb'), 'a\\e[2J\\nb')
  assert.match(safeLine(hostile), /^[\x20-\x7e]+$/)
})

test('safeBlock keeps line breaks and tabs and escapes all other control characters', () => {
  assert.equal(safeBlock('a\r\n\tb\rc'), 'a\n\tb\\rc')
  assert.doesNotMatch(safeBlock(hostile), /[\p{Cc}\u202e\u2028]/u)
})

test('safeJson escapes control sequences and parses to the same value', () => {
  const text = safeJson({ [hostile]: hostile })
  assert.match(text, /^[\x20-\x7e]+$/)
  assert.deepEqual(JSON.parse(text), { [hostile]: hostile })
  assert.equal(safeJson('grüße 😀'), '"grüße 😀"')
})

test('invisible characters are escaped as code points', () => {
  const ranges = [
    [0xad, 0xad],
    [0x200b, 0x200f],
    [0x2060, 0x2064],
    [0xfeff, 0xfeff],
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
      const character = String.fromCodePoint(code)
      const shown = `a\\u{${code.toString(16)}}b`
      assert.equal(safeLine(`a${character}b`), shown)
      assert.equal(safeBlock(`a${character}b`), shown)
      const json = safeJson(character)
      assert.match(json, /^"(?:\\u[0-9a-f]{4}){1,2}"$/)
      assert.equal(JSON.parse(json), character)
    }
  }
})

test('clip does not split a surrogate pair', () => {
  assert.equal(clip('a😀b', 3), 'a😀b')
  assert.equal(clip('a😀bc', 3), 'a😀…')
})
