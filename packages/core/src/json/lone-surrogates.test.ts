import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loneSurrogateIn } from './parse.ts'

const found = (text: string) => loneSurrogateIn(text, JSON.parse(text))

test('a lone surrogate is reported with its path, in strings and keys, escaped or literal', () => {
  const message = 'holds half of a character pair'
  assert.deepEqual(found('"\\ud800"'), { path: '', message })
  assert.deepEqual(found('{"a":["x",{"b/c":"x\\uDFFFy"}]}'), { path: '/a/1/b~1c', message })
  assert.deepEqual(found('{"a":["\ud800"]}'), { path: '/a/0', message })
  assert.deepEqual(found('["\\ude00\\ud83d"]'), { path: '/0', message })
  assert.deepEqual(found('[{"\\ud800":1}]'), { path: '/0', message: `has a key that ${message}` })
})

test('surrogate pairs, and text that only resembles a lone surrogate, are accepted', () => {
  for (const text of ['"\\ud83d\\ude00"', '"😀"', '"\\\\ud800"', '{"a":[1,null,true,"\\u00d8"]}', '"\\uFFFD"']) {
    assert.equal(found(text), undefined, text)
  }
  assert.equal(found(`${'['.repeat(100_000)}"\\ud800"${']'.repeat(100_000)}`), undefined)
})
