import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isTag, normalTag } from './text-list.ts'

test('a tag is normalized to one spelling', () => {
  for (const text of ['blue-sky', 'Blue Sky', ' BLUE  sky ']) assert.equal(normalTag(text), 'blue-sky')
  assert.ok(isTag('blue-sky'))
  for (const text of ['Blue', 'a/b', '']) assert.ok(!isTag(text))
})
