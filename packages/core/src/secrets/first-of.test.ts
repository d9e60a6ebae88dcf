import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testSecretSource } from '@gantry/conformance/internal/host-ports'
import { firstOf } from './first-of.ts'
import { memorySecrets } from './memory.ts'
import { request } from './secrets.fixture.ts'

testSecretSource('first of several', () => firstOf(memorySecrets({}), memorySecrets({ api: 'correct-horse' })))

test('firstOf returns the value of the earliest source that has it', async () => {
  const source = firstOf(memorySecrets({ api: 'first' }), memorySecrets({ api: 'second', other: 'third' }))
  assert.equal(await source.get('api', request), 'first')
  assert.equal(await source.get('other', request), 'third')
})

test('firstOf rejects when a source fails, without asking the next', async () => {
  const broken = { get: () => Promise.reject(new Error('disk')) }
  await assert.rejects(async () => firstOf(broken, memorySecrets({ api: 'second' })).get('api', request), /disk/)
})
