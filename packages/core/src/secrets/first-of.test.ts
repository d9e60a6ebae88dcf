import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testSecretSource } from '@gantry/conformance/internal/secret-source'
import { firstOf } from './first-of.ts'
import { memorySecrets } from './memory.ts'
import { request } from './secrets.fixture.ts'

testSecretSource('first of several', () => firstOf(memorySecrets({}), memorySecrets({ api: 'correct-horse' })))

test('the earlier source wins', async () => {
  const source = firstOf(memorySecrets({ api: 'first' }), memorySecrets({ api: 'second', other: 'third' }))
  assert.equal(await source.get('api', request), 'first')
  assert.equal(await source.get('other', request), 'third')
})

test('a source that fails ends the search', async () => {
  const broken = { get: () => Promise.reject(new Error('disk')) }
  await assert.rejects(async () => firstOf(broken, memorySecrets({ api: 'second' })).get('api', request), /disk/)
})
