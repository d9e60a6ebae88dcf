import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { testAuthenticator } from '../../conformance/authenticator.ts'
import { memoryKeys } from '../../storage/keys/api-keys.fixture.ts'
import { createKeyControl } from './key-control.ts'
import { createLiveKeys } from './live-keys.ts'
import { storedKeyAuthenticator } from './stored-key.ts'

const maker = { principal: 'owner', tenant: 'acme', permissions: ['*'] }
const { signal } = new AbortController()
const shown = (key: string) => ({ method: 'GET', path: '/', headers: { authorization: `Bearer ${key}` } })

async function rig() {
  const records = memoryKeys()
  const control = createKeyControl(records, async () => undefined)
  const away = { now: false }
  const clock = { ms: 0 }
  const live = createLiveKeys(
    {
      async find(ids) {
        if (away.now) throw new ToolError('STORE_UNAVAILABLE', 'The database is away.')
        return records.find(ids)
      },
      used: records.used,
    },
    () => clock.ms,
  )
  const { key, text = '' } = await control.create({ name: 'ci', permissions: ['a:b'], tools: ['demo:*'] }, maker)
  const identity = { tenant: 'acme', principal: 'key:ci', permissions: ['a:b'], roles: [], tools: ['demo:*'] }
  return { authenticator: storedKeyAuthenticator(live), records, control, live, away, clock, key, text, identity }
}

testAuthenticator('stored key', async () => {
  const { authenticator, control, text, identity, away } = await rig()
  const other = (await control.create({ name: 'other' }, maker)).text ?? ''
  const revoked = await control.create({ name: 'revoked' }, maker)
  await control.revoke(revoked.key.id, maker)
  const signing = await control.create(
    { name: 'signs', publicKey: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' },
    maker,
  )
  const secret = text.slice(-43)
  return {
    authenticator,
    good: async () => ({ presented: shown(text), identity }),
    wrong: async () => ({
      'the id of another key': shown(`${other.slice(0, 16)}${secret}`),
      'one letter less': shown(text.slice(0, -1)),
      'another case': shown(`${text.slice(0, -43)}${secret.toUpperCase()}`),
      'an id that does not exist': shown(`gk_${'0'.repeat(12)}_${secret}`),
      'a key that was revoked': shown(revoked.text ?? ''),
      'a key that signs': shown(`gk_${signing.key.id}_${secret}`),
      'SQL for an id': shown(`gk_' or 1=1 --_${secret}`),
    }),
    cut() {
      away.now = true
    },
  }
})

test('a key is asked for once in a few seconds, at most once at a time, and guesses are not remembered', async () => {
  const { authenticator, records, clock, text } = await rig()
  await Promise.all(Array.from({ length: 50 }, () => authenticator.authenticate(shown(text), signal)))
  assert.equal(records.asked.length, 1)
  await authenticator.authenticate(shown(text), signal)
  assert.equal(records.asked.length, 1)
  clock.ms += 5_001
  await authenticator.authenticate(shown(text), signal)
  assert.equal(records.asked.length, 2)
  const guess = `gk_${'0'.repeat(12)}_${'x'.repeat(43)}`
  await Promise.allSettled(Array.from({ length: 50 }, () => authenticator.authenticate(shown(guess), signal)))
  assert.deepEqual(records.asked.slice(2), [['000000000000']])
})

test('a revoked key is not let in any more once the change was heard, also when it was being asked for', async () => {
  const { authenticator, control, live, key, text } = await rig()
  await authenticator.authenticate(shown(text), signal)
  await control.revoke(key.id, maker)
  assert.ok(await authenticator.authenticate(shown(text), signal), 'not heard of yet')
  live.changed(key.id)
  await assert.rejects(authenticator.authenticate(shown(text), signal), { code: 'UNAUTHENTICATED' })

  const second = await rig()
  const asked = second.authenticator.authenticate(shown(second.text), signal)
  const found = second.records.find
  second.records.find = async (ids) => {
    const keys = await found(ids)
    await second.control.revoke(second.key.id, maker)
    second.live.changed(second.key.id)
    return keys
  }
  assert.ok(await asked, 'whoever asked before the change may be answered with what was true then')
  await assert.rejects(second.authenticator.authenticate(shown(second.text), signal), { code: 'UNAUTHENTICATED' })
})

test('a key that ends sooner than it is remembered is forgotten in time', async () => {
  const { authenticator, control, clock, records } = await rig()
  const { text = '' } = await control.create({ name: 'short', expiresMs: 1_000 }, maker)
  assert.ok(await authenticator.authenticate(shown(text), signal))
  clock.ms += 1_001
  records.asked.length = 0
  await authenticator.authenticate(shown(text), signal)
  assert.equal(records.asked.length, 1)
})
