import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readQuestion } from './question.ts'

test('a sleep is for a time that is finite and not below nought; anything else is no question', () => {
  const asked = (text: string) => readQuestion({ number: 1, kind: 'sleep', text })
  for (const ms of [0, 1.5, 1e300]) assert.deepEqual(asked(JSON.stringify({ ms })), { kind: 'sleep', ms })
  for (const text of ['{"ms":1e999}', '{"ms":-1}', '{"ms":"5"}', '{"ms":null}', '{}']) {
    const read = asked(text)
    assert.ok(read.kind === 'wrong', text)
    assert.deepEqual([read.error.code, read.error.effect], ['INPUT_INVALID', 'none'])
  }
})
