import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { SortedStrings } from './dictionary.ts'

test('SortedStrings iterates like a sorted set, from any start', () => {
  const text = fc.stringMatching(/^[a-c]{0,3}$/)
  fc.assert(
    fc.property(fc.array(fc.tuple(text, fc.constantFrom('add', 'delete', 'walk'))), text, (changes, start) => {
      const model = new Set<string>()
      const strings = new SortedStrings()
      for (const [entry, change] of changes) {
        if (change === 'walk') strings.from(entry).next()
        else {
          model[change](entry)
          strings[change](entry)
        }
      }
      assert.deepEqual([...strings.from(start)], [...model].filter((entry) => entry >= start).sort())
    }),
  )
})

test('SortedStrings stays sorted through thousands of additions and removals', () => {
  const all = Array.from({ length: 5_000 }, (_, index) => `k${(index * 7_919) % 5_000}`)
  const strings = new SortedStrings()
  for (const entry of all) strings.add(entry)
  assert.deepEqual([...strings.from('')], all.toSorted())
  for (const entry of all.slice(0, 4_000)) strings.delete(entry)
  assert.deepEqual([...strings.from('')], all.slice(4_000).sort())
})
