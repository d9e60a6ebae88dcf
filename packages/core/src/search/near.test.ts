import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { editDistance, nearest } from './near.ts'

test('the nearest names come first, regardless of case', () => {
  const names = ['timeoutMs', 'retries', 'timeout', 'Tools']
  assert.deepEqual(nearest('timeoutMS', names), ['timeoutMs', 'timeout'])
  assert.deepEqual(nearest('tool', names), ['Tools'])
  assert.deepEqual(nearest('unrelated', names), [])
})

test('at most the requested number of names is returned, and ties sort by name', () => {
  const names = ['ab', 'ac', 'ad', 'ae', 'af', 'ag', 'ah', 'ai', 'aj', 'ak', 'al', 'am', 'an']
  assert.deepEqual(nearest('aa', names.toReversed()), ['ab', 'ac', 'ad'])
  assert.deepEqual(nearest('aa', names, { limit: 1 }), ['ab'])
})

test('an empty or overlong name has no near names', () => {
  assert.deepEqual(nearest('', ['a']), [])
  assert.deepEqual(nearest('a'.repeat(100_000), ['a']), [])
})

test('a transposition of adjacent characters is one edit', () => {
  assert.equal(editDistance('craete', 'create', 2), 1)
})

/** The textbook way, without a limit. */
function plainDistance(a: string, b: string): number {
  const at = (row: number, column: number): number => {
    if (row === 0 || column === 0) return row + column
    const cost = a[row - 1] === b[column - 1] ? 0 : 1
    const swap = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
    return Math.min(
      at(row - 1, column) + 1,
      at(row, column - 1) + 1,
      at(row - 1, column - 1) + cost,
      swap ? at(row - 2, column - 2) + 1 : Number.POSITIVE_INFINITY,
    )
  }
  return at(a.length, b.length)
}

test('the edit distance equals the textbook distance, capped above the limit', () => {
  const text = fc.stringMatching(/^[ab1]{0,5}$/)
  fc.assert(
    fc.property(text, text, fc.nat(3), (a, b, limit) => {
      assert.equal(editDistance(a, b, limit), Math.min(plainDistance(a, b), limit + 1))
    }),
  )
})

test('every name within the allowed number of edits is found', () => {
  const text = fc.stringMatching(/^[a-d1_]{1,6}$/)
  fc.assert(
    fc.property(text, fc.array(text, { maxLength: 5 }), (wanted, names) => {
      const found = new Set(nearest(wanted, names, { limit: 10, maxDistance: 2 }))
      for (const name of names) assert.equal(found.has(name), plainDistance(wanted, name) <= 2)
    }),
  )
})
