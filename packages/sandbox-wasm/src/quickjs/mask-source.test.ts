import assert from 'node:assert/strict'
import { test } from 'node:test'
import { maskSource } from './fault.ts'

test('comments and the contents of strings, templates and regular expressions are blanked without moving other characters', () => {
  const cases: readonly (readonly [source: string, seen: string])[] = [
    ['a // b\nc', 'ac'],
    ['a /* b\nb */ c', 'ac'],
    [`x = 'a\\'b' + "c" + y`, 'x=++y'],
    [`\`a\${b}c\` + d`, 'b+d'],
    [`\`a\${ { b: \`x\${y}\` }.b }z\` + d`, '{b:y}.b+d'],
    ['a / b / c', 'a/b/c'],
    ['x = /b"c/.test(d)', 'x=.test(d)'],
    ["'open\nnext", 'next'],
  ]
  for (const [source, seen] of cases) {
    const masked = maskSource(source)
    assert.equal(masked.length, source.length, source)
    assert.deepEqual(masked.split('\n').length, source.split('\n').length, source)
    assert.equal(masked.replace(/\s/g, ''), seen, source)
    for (const [at, character] of [...masked].entries()) {
      if (character !== ' ') assert.equal(character, source[at], source)
    }
  }
})
