import assert from 'node:assert/strict'
import { testOnDatabases } from '../calls.fixture.ts'
import { nonceRecords } from './api-keys.ts'

testOnDatabases({
  'a nonce is accepted once per key, also by concurrent requests': async ({ database }) => {
    const nonces = nonceRecords(database)
    const one = { keyId: 'a', nonce: 'n1' }
    assert.deepEqual(await nonces.use([one, one, { keyId: 'b', nonce: 'n1' }]), [true, false, true])
    assert.deepEqual(await nonces.use([one, { keyId: 'a', nonce: 'n2' }]), [false, true])
    const storm = await Promise.all(Array.from({ length: 20 }, () => nonces.use([{ keyId: 'a', nonce: 'n3' }])))
    assert.equal(storm.flat().filter(Boolean).length, 1)
  },

  'forget() removes nonces older than any acceptable request': async ({ database }) => {
    const nonces = nonceRecords(database)
    await nonces.use([
      { keyId: 'a', nonce: 'old' },
      { keyId: 'a', nonce: 'new' },
    ])
    await database.query(`update nonces set used_at = used_at - interval '16 minutes' where nonce = 'old'`)
    await nonces.forget()
    assert.deepEqual(await database.query('select nonce from nonces'), [{ nonce: 'new' }])
  },
})
