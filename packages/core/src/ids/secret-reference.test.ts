import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fetchSecrets, fillSecrets, secretNames } from './secret-reference.ts'

test('each secret is named once, and a name ends where a sentence would go on', () => {
  assert.deepEqual(secretNames(['Token secret:a.b/c, v1', 'secret:a.b/c', 'x secret:d.', 'secret:']), ['a.b/c', 'd'])
  assert.deepEqual(secretNames(['nosecret:c', 'my-secret:d', 'plain']), [])
})

test('what a secret holds is not searched for references, and words that only end so are left', async () => {
  const text = 'x secret:a. nosecret:c secret:'
  const secrets = await fetchSecrets(secretNames([text]), async () => 'secret:b $& $1')
  assert.equal(fillSecrets(text, secrets), 'x secret:b $& $1. nosecret:c secret:')
})

test('a missing secret rejects before the next is asked for', async () => {
  const asked: string[] = []
  const secret = async (name: string): Promise<string> => {
    asked.push(name)
    throw new Error(`no ${name}`)
  }
  await assert.rejects(fetchSecrets(['a', 'b'], secret), /no a/)
  assert.deepEqual(asked, ['a'])
})
