import assert from 'node:assert/strict'
import { test } from 'node:test'
import { resolveText } from './secret-sources.ts'

test('resolveText returns plain text as it is, and for secret:name the value of the secret source', async () => {
  const asked: string[] = []
  const secrets = {
    async get(name: string, { signal }: { readonly signal: AbortSignal }) {
      asked.push(name)
      assert.equal(signal.aborted, false)
      return name === 'KAFKA' ? 'hunter2' : undefined
    },
  }
  assert.equal(await resolveText('plain', secrets, '/kafka/password'), 'plain')
  assert.deepEqual(asked, [])
  assert.equal(await resolveText('secret:KAFKA', secrets, '/kafka/password'), 'hunter2')
  assert.deepEqual(asked, ['KAFKA'])
})

test('a missing secret is SECRET_UNAVAILABLE with its name and the key that uses it, never the text itself', async () => {
  for (const secrets of [undefined, {}, { get: async () => undefined }]) {
    const wanted = { code: 'SECRET_UNAVAILABLE', message: /KAFKA.*\/kafka\/password/ }
    await assert.rejects(resolveText('secret:KAFKA', secrets, '/kafka/password'), wanted)
  }
})
