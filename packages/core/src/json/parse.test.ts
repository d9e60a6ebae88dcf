import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseJson } from './parse.ts'
import { JsonError } from './plain.ts'

function faultOf(text: string): JsonError {
  try {
    parseJson(text)
  } catch (error) {
    assert.ok(error instanceof JsonError, String(error))
    return error
  }
  return assert.fail(`accepted ${text.slice(0, 50)}`)
}

test('the parser reads the output of JSON.stringify back unchanged', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), fc.constantFrom(undefined, 1, '\t'), (value, indent) => {
      const text = JSON.stringify(value, undefined, indent)
      if (text.includes('"__proto__"')) return
      const parsed: unknown = JSON.parse(text)
      if (!JSON.stringify(parsed).isWellFormed() || hasLongInteger(text)) return
      assert.deepEqual(parseJson(text), parsed)
    }),
  )
})

function hasLongInteger(text: string): boolean {
  return /[0-9]{16,}|e[+-]?[0-9]{3}/.test(text)
}

test('the parser refuses text that JSON.parse refuses, and throws no other error', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(...'{}[]",:0123456789.eE+-truefalsn\\u \n') }), (text) => {
      let accepted = true
      try {
        JSON.parse(text)
      } catch {
        accepted = false
      }
      try {
        parseJson(text)
        assert.ok(accepted, text)
      } catch (error) {
        if (!(error instanceof JsonError)) throw error
      }
    }),
    { numRuns: 2_000 },
  )
})

test('a syntax error names line and column', () => {
  assert.match(faultOf('{"a": 1,\n "b": nope}').message, /line 2, column 7/)
  assert.match(faultOf('{"a"').message, /the text ends at line 1, column 5/)
  assert.match(faultOf("{'a':1}").message, /double quotes/)
})

test('data that JSON.parse would lose silently is refused with its path', () => {
  assert.equal(faultOf('{"a":1,"a":2}').path, '/a')
  assert.equal(faultOf('{"a":[9007199254740993]}').path, '/a/0')
  assert.equal(faultOf('1e999').fault, 'not-json')
  assert.equal(faultOf('"\\ud800"').fault, 'not-json')
  assert.equal(faultOf('{"__proto__":1}').fault, 'forbidden-key')
})

test('100,000 levels of nesting, or text over the size limit, are refused without a stack overflow', () => {
  assert.equal(faultOf('['.repeat(100_000)).fault, 'too-deep')
  assert.equal(faultOf(`"${'x'.repeat(1_100_000)}"`).fault, 'too-large')
  assert.equal(parseJson(`"${'x'.repeat(1_000_000)}"`), 'x'.repeat(1_000_000))
})
