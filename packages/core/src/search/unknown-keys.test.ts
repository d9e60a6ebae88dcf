import assert from 'node:assert/strict'
import { test } from 'node:test'
import { unknownKeys } from './near.ts'

test('each unknown key is reported at its path, with the probable spelling', () => {
  assert.deepEqual(unknownKeys({ allow: 1, denny: 2, 'a/b': 3 }, ['allow', 'deny'], '/toolset', 'is not known'), [
    { path: '/toolset/denny', message: 'is not known (did you mean "deny"?)' },
    { path: '/toolset/a~1b', message: 'is not known' },
  ])
})
