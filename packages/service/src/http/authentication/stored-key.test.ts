import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { testAuthenticator } from '../../conformance/authenticator.ts'
import { switchedResponses } from '../../observe/unresponsive.fixture.ts'
import { memoryKeys } from '../../storage/keys/api-keys.fixture.ts'
import { createKeyControl } from './key-control.ts'
import { createLiveKeys } from './live-keys.ts'
import { storedKeyAuthenticator } from './stored-key.ts'

const maker = { principal: 'owner', tenant: 'acme', permissions: ['*'] }
const { signal } = new AbortController()
const shown = (key: string) => ({ method: 'GET', path: '/', headers: { authorization: `Bearer ${key}` } })

const unavailable = { code: 'STORE_UNAVAILABLE', retryable: true, details: { retryAfterMs: 1_000 } }

async function rig() {
  const health = switchedResponses()
  const records = memoryKeys()
  const control = createKeyControl(records, async () => undefined)
  const isDown = { now: false }
  const clock = { ms: 0 }
  const live = createLiveKeys(
    {
      async find(ids) {
        if (isDown.now) throw new ToolError('STORE_UNAVAILABLE', 'The database is unavailable.')
        return records.find(ids)
      },
      used: records.used,
    },
    { now: () => clock.ms, health },
  )
  const { key, text = '' } = await control.create({ name: 'ci', permissions: ['a:b'], tools: ['demo:*'] }, maker)
  const identity = { tenant: 'acme', principal: 'key:ci', permissions: ['a:b'], roles: [], tools: ['demo:*'] }
  const authenticator = storedKeyAuthenticator(live)
  return { authenticator, records, control, live, isDown, clock, key, text, identity, health }
}

testAuthenticator('stored key', async () => {
  const { authenticator, control, text, identity, isDown } = await rig()
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
      isDown.now = true
    },
  }
})

test('a key is looked up once in five seconds, and concurrent requests with a key or a guess share one lookup', async () => {
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

test('a revoked key is refused once its notification arrives, also when it arrives during a lookup', async () => {
  const { authenticator, control, live, key, text } = await rig()
  await authenticator.authenticate(shown(text), signal)
  await control.revoke(key.id, maker)
  assert.ok(await authenticator.authenticate(shown(text), signal), 'no notification yet')
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
  assert.ok(await asked, 'a lookup that began before the change may answer what was true then')
  await assert.rejects(second.authenticator.authenticate(shown(second.text), signal), { code: 'UNAUTHENTICATED' })
})

test('a cached key that expires within the cache time is looked up again', async () => {
  const { authenticator, control, clock, records } = await rig()
  const { text = '' } = await control.create({ name: 'short', expiresMs: 1_000 }, maker)
  assert.ok(await authenticator.authenticate(shown(text), signal))
  clock.ms += 1_001
  records.asked.length = 0
  await authenticator.authenticate(shown(text), signal)
  assert.equal(records.asked.length, 1)
})

test('a lookup that hangs when the database stops answering is refused at once, and later ones are not sent', async () => {
  const { authenticator, records, health, clock, text } = await rig()
  const { find } = records
  const [sent, thaw] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  records.find = async (ids) => {
    sent.resolve()
    await thaw.promise
    return find(ids)
  }
  const guess = `gk_${'0'.repeat(12)}_${'x'.repeat(43)}`
  const hanging = [text, guess].map((key) =>
    assert.rejects(authenticator.authenticate(shown(key), signal), unavailable),
  )
  await sent.promise
  health.fall()
  await Promise.all(hanging)
  records.find = () => assert.fail('the database is queried while it is unresponsive')
  for (const key of [text, guess]) await assert.rejects(authenticator.authenticate(shown(key), signal), unavailable)
  health.end()
  records.find = find
  thaw.resolve()
  assert.ok(await authenticator.authenticate(shown(text), signal))
  assert.equal(health.listeners, 0)
  health.fall()
  assert.ok(await authenticator.authenticate(shown(text), signal), 'a key is remembered for as long as before')
  clock.ms += 5_001
  await assert.rejects(authenticator.authenticate(shown(text), signal), unavailable)
})
