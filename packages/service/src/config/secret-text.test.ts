import assert from 'node:assert/strict'
import { test } from 'node:test'
import { resolveText } from './secret-text.ts'

test('a text is itself, and one that names a secret is what the source has under that name', async () => {
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

test('a secret that cannot be had is named with its place, and never stands for itself', async () => {
  for (const secrets of [undefined, {}, { get: async () => undefined }]) {
    const wanted = { code: 'SECRET_UNAVAILABLE', message: /KAFKA.*\/kafka\/password/ }
    await assert.rejects(resolveText('secret:KAFKA', secrets, '/kafka/password'), wanted)
  }
})
