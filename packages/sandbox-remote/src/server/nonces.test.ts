import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createNonces } from './admission.ts'

test('a nonce is refused for at least as long as it must be remembered', () => {
  let at = 0
  const nonces = createNonces({ keepMs: 100, most: 10, now: () => at })
  assert.equal(nonces.use('a', 0), 'fresh')
  for (at = 0; at <= 100; at += 10) assert.equal(nonces.use('a', 0), 'used', `after ${at}`)
  at = 500
  assert.equal(nonces.use('a', 500), 'fresh')
})

test('a full store refuses new nonces and forgets none', () => {
  let at = 0
  const nonces = createNonces({ keepMs: 100, most: 2, now: () => at })
  assert.deepEqual([nonces.use('a', 1), nonces.use('b', 1), nonces.use('c', 1)], ['fresh', 'fresh', 'full'])
  assert.deepEqual([nonces.use('a', 1), nonces.use('b', 1)], ['used', 'used'])
  at = 110
  assert.deepEqual([nonces.use('c', 110), nonces.use('a', 1)], ['fresh', 'used'])
})

test('a request whose nonce was forgotten is refused after the clock of the machine was set back', () => {
  let at = 0
  const nonces = createNonces({ keepMs: 100, most: 10, now: () => at })
  assert.equal(nonces.use('a', 1_000), 'fresh')
  at = 110
  assert.equal(nonces.use('b', 1_110), 'fresh')
  at = 220
  assert.equal(nonces.use('c', 1_220), 'fresh')
  assert.equal(nonces.use('a', 1_000), 'forgotten')
  assert.equal(nonces.use('d', 999), 'forgotten')
  assert.equal(nonces.use('e', 1_001), 'fresh')
  at = 900
  assert.equal(nonces.use('c', 1_220), 'forgotten')
})
