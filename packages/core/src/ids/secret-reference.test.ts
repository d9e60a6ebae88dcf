import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fetchSecrets, fillSecrets, secretNames } from './secret-reference.ts'

test('secretNames lists each secret once, and punctuation ends a name', () => {
  assert.deepEqual(secretNames(['Token secret:a.b/c, v1', 'secret:a.b/c', 'x secret:d.', 'secret:']), ['a.b/c', 'd'])
  assert.deepEqual(secretNames(['nosecret:c', 'my-secret:d', 'plain']), [])
})

test('fillSecrets does not expand references inside a secret value, nor words such as nosecret:c', async () => {
  const text = 'x secret:a. nosecret:c secret:'
  const secrets = await fetchSecrets(secretNames([text]), async () => 'secret:b $& $1')
  assert.equal(fillSecrets(text, secrets), 'x secret:b $& $1. nosecret:c secret:')
})

test('fetchSecrets rejects at the first missing secret, before it fetches the next', async () => {
  const asked: string[] = []
  const secret = async (name: string): Promise<string> => {
    asked.push(name)
    throw new Error(`no ${name}`)
  }
  await assert.rejects(fetchSecrets(['a', 'b'], secret), /no a/)
  assert.deepEqual(asked, ['a'])
})
