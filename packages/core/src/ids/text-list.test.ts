import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Issue } from '@gantry/contract'
import { textList } from './text-list.ts'

function paths(value: unknown): string[] {
  const issues: Issue[] = []
  textList(value, '/list', issues)
  return issues.map(({ path }) => path)
}

test('a list of strings is returned unchanged', () => {
  assert.deepEqual(textList(['a', 'b c'], '/list', []), ['a', 'b c'])
})

test('a value that is not a list, and an empty or too long list, is reported at its path', () => {
  for (const value of [undefined, null, 'a', 5, {}, [], new Array(10_001).fill('a')]) {
    assert.deepEqual(paths(value), ['/list'], JSON.stringify(value)?.slice(0, 20))
  }
})

test('each element that is not a string, or is blank, is reported at its own path', () => {
  // biome-ignore lint/suspicious/noSparseArray: a hole is what is tested
  assert.deepEqual(paths(['a', 5, '', , null, ' ']), ['/list/1', '/list/2', '/list/3', '/list/4', '/list/5'])
})
