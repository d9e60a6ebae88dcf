import assert from 'node:assert/strict'
import { test } from 'node:test'
import { clip, safeBlock, safeJson, safeLine } from './terminal.ts'

const hostile = 'a\x1b[2Jb\u009b31mc\u202ed\u2028e\r\x07\u{e0041}\u061cf\x7f'

test('nothing that a terminal obeys survives on a line', () => {
  assert.equal(safeLine('a\x1b[2J\nb'), 'a\\e[2J\\nb')
  assert.match(safeLine(hostile), /^[\x20-\x7e]+$/)
})

test('a block keeps its lines and tabs, and only these', () => {
  assert.equal(safeBlock('a\r\n\tb\rc'), 'a\n\tb\\rc')
  assert.doesNotMatch(safeBlock(hostile), /[\p{Cc}\u202e\u2028]/u)
})

test('JSON stays the same value without anything a terminal obeys', () => {
  const text = safeJson({ [hostile]: hostile })
  assert.match(text, /^[\x20-\x7e]+$/)
  assert.deepEqual(JSON.parse(text), { [hostile]: hostile })
  assert.equal(safeJson('grüße 😀'), '"grüße 😀"')
})

test('characters that cannot be seen are spelled out', () => {
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

test('a clipped line does not cut a character in two', () => {
  assert.equal(clip('a😀b', 3), 'a😀b')
  assert.equal(clip('a😀bc', 3), 'a😀…')
})
