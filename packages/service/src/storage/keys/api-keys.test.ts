import assert from 'node:assert/strict'
import type { Identity } from '@gantry/contract'
import { addRows, ago, someCall, testOnDatabases } from '../calls.fixture.ts'
import { keyChannel, keyRecords, type NewKey } from './api-keys.ts'

const maker: Identity = { principal: 'alice', tenant: 'acme', permissions: ['*'] }

function someKey(id: string, given: Partial<NewKey> = {}): NewKey {
  const identity = {
    tenant: 'acme',
    principal: 'key:ci',
    permissions: ['files:read'],
    roles: ['ci'],
    tools: ['demo:*'],
  }
  return { id, name: 'ci', identity, verifier: { digest: `digest-${id}` }, lifeMs: 60_000, ...given }
}

const notFound = { code: 'NOT_FOUND' }

testOnDatabases({
  'a key is stored with its identity and found by its id, and no view or audit entry contains its digest': async ({
    database,
  }) => {
    const keys = keyRecords(database)
    const made = await keys.add(someKey('aaaaaaaaaaaa'), maker)
    assert.deepEqual(
      [made.kind, made.state, made.principal, made.permissions, made.roles, made.tools, made.createdBy],
      ['bearer', 'live', 'key:ci', ['files:read'], ['ci'], ['demo:*'], 'alice'],
    )
    assert.ok(!JSON.stringify(await keys.list({}, 'acme')).includes('digest-'))
    const [live] = await keys.find(['aaaaaaaaaaaa', 'bbbbbbbbbbbb'])
    assert.deepEqual(live?.identity, someKey('').identity)
    assert.deepEqual(live?.verifier, { digest: 'digest-aaaaaaaaaaaa' })
    assert.ok((live?.leftMs ?? 0) > 0 && (live?.leftMs ?? 0) <= 60_000)
    const signing = await keys.add(someKey('cccccccccccc', { verifier: { publicKey: 'p' } }), maker)
    assert.equal(signing.kind, 'signing')
    const [note] = await database.query('select tenant, principal, phase, tool, call_id, details from audit')
    assert.deepEqual(
      [note?.tenant, note?.principal, note?.tool, note?.call_id],
      ['acme', 'alice', 'keys.create', 'aaaaaaaaaaaa'],
    )
    assert.ok(!String(note?.details).includes('digest-'))
  },

  'find() returns no expired or revoked key, and a revocation notifies all processes': async ({ database }) => {
    const keys = keyRecords(database)
    const received: (string | undefined)[] = []
    const notified = Promise.withResolvers<void>()
    const unlisten = await database.listen(keyChannel, (id) => {
      received.push(id)
      notified.resolve()
    })
    await keys.add(someKey('aaaaaaaaaaaa'), maker)
    await keys.add(someKey('bbbbbbbbbbbb'), maker)
    await database.query(`update api_keys set expires_at = now() where id = 'bbbbbbbbbbbb'`)
    assert.equal((await keys.get('bbbbbbbbbbbb', 'acme')).state, 'expired')
    assert.equal((await keys.revoke('aaaaaaaaaaaa', 'acme', maker)).state, 'revoked')
    await notified.promise
    assert.deepEqual(await keys.find(['aaaaaaaaaaaa', 'bbbbbbbbbbbb']), [])
    const first = (await keys.get('aaaaaaaaaaaa', 'acme')).revokedAt
    assert.equal((await keys.revoke('aaaaaaaaaaaa', 'acme', maker)).revokedAt, first)
    assert.deepEqual(received, ['aaaaaaaaaaaa'])
    await unlisten()
  },

  'a key of another tenant is NOT_FOUND': async ({ database }) => {
    const keys = keyRecords(database)
    await keys.add(someKey('aaaaaaaaaaaa'), maker)
    await assert.rejects(keys.get('aaaaaaaaaaaa', 'other'), notFound)
    await assert.rejects(keys.revoke('aaaaaaaaaaaa', 'other', maker), notFound)
    assert.deepEqual((await keys.list({}, 'other')).items, [])
    assert.equal((await keys.list({}, undefined)).items.length, 1)
    assert.equal((await keys.get('aaaaaaaaaaaa', undefined)).state, 'live')
  },

  'rotate() creates one successor, and the old key expires at the end of the overlap': async ({ database }) => {
    const keys = keyRecords(database)
    await keys.add(someKey('aaaaaaaaaaaa'), maker)
    const rotations = ['bbbbbbbbbbbb', 'cccccccccccc', 'dddddddddddd'].map((id) =>
      keys.rotate('aaaaaaaaaaaa', someKey(id), 1_000, maker),
    )
    const settled = await Promise.allSettled(rotations)
    const won = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    assert.equal(won.length, 1)
    for (const one of settled) if (one.status === 'rejected') assert.equal(one.reason.code, 'INPUT_INVALID')
    const [next] = won
    assert.equal(next?.replaces, 'aaaaaaaaaaaa')
    const live = await keys.find(['aaaaaaaaaaaa', next?.id ?? ''])
    assert.equal(live.length, 2)
    assert.ok((live.find(({ id }) => id === 'aaaaaaaaaaaa')?.leftMs ?? 60_000) <= 1_000)
    await keys.revoke(next?.id ?? '', 'acme', maker)
    const again = await keys.rotate('aaaaaaaaaaaa', someKey('eeeeeeeeeeee'), 60_000_000, maker)
    assert.equal(again.state, 'live')
    const old = await keys.get('aaaaaaaaaaaa', 'acme')
    assert.ok(
      Date.parse(old.expiresAt) - Date.parse(again.createdAt) <= 1_000,
      'an overlap does not extend the life of the old key',
    )
    await keys.revoke('aaaaaaaaaaaa', 'acme', maker)
    await keys.revoke('eeeeeeeeeeee', 'acme', maker)
    await assert.rejects(keys.rotate('aaaaaaaaaaaa', someKey('ffffffffffff'), 0, maker), { code: 'INPUT_INVALID' })
  },

  'with `unclaimed`, the first maker of a key owns its principal, and other makers are DENIED': async ({
    database,
  }) => {
    const keys = keyRecords(database)
    const makers = ['aaaa', 'bbbb', 'cccc', 'dddd'].map((name) => ({ ...maker, principal: name }))
    const settled = await Promise.allSettled(
      makers.map((by) => keys.add(someKey(by.principal.repeat(3)), by, { unclaimed: true })),
    )
    const won = makers.filter((_, index) => settled[index]?.status === 'fulfilled')
    assert.equal(won.length, 1)
    for (const one of settled) if (one.status === 'rejected') assert.equal(one.reason.code, 'DENIED')
    const [winner = maker] = won
    const elsewhere = { ...someKey('').identity, tenant: 'other' }
    await keys.revoke(winner.principal.repeat(3), 'acme', maker)
    await assert.rejects(keys.add(someKey('eeeeeeeeeeee'), maker, { unclaimed: true }), { code: 'DENIED' })
    await keys.add(someKey('ffffffffffff'), winner, { unclaimed: true })
    await keys.add(someKey('gggggggggggg', { identity: elsewhere }), maker, { unclaimed: true })
    assert.equal((await keys.get('gggggggggggg', 'other')).createdBy, 'acme/alice')
    await keys.add(someKey('hhhhhhhhhhhh'), maker)
  },

  'with `unclaimed`, a key whose principal belongs to another maker cannot be rotated': async ({ database }) => {
    const keys = keyRecords(database)
    const other = { ...maker, principal: 'other' }
    await keys.add(someKey('aaaaaaaaaaaa'), maker)
    const taking = keys.rotate('aaaaaaaaaaaa', someKey('bbbbbbbbbbbb'), 0, other, { unclaimed: true })
    await assert.rejects(taking, { code: 'DENIED' })
    assert.equal((await keys.get('aaaaaaaaaaaa', 'acme')).state, 'live', 'the refusal changes nothing')
    await keys.rotate('aaaaaaaaaaaa', someKey('bbbbbbbbbbbb'), 60_000, other)
    const again = keys.rotate('bbbbbbbbbbbb', someKey('cccccccccccc'), 0, other, { unclaimed: true })
    await assert.rejects(again, { code: 'DENIED' }, 'rotating a key does not make its principal one’s own')
    await keys.rotate('bbbbbbbbbbbb', someKey('cccccccccccc'), 0, maker, { unclaimed: true })
  },

  'pending() returns the waiting calls of a principal, without running calls and those of others': async ({
    database,
  }) => {
    await addRows(database, 'calls', [
      ...['waits', 'later', 'asked', 'runs', 'done'].map((id) => someCall(id, { principal: 'key:ci' })),
      someCall('other', { principal: 'key:other' }),
      someCall('elsewhere', { principal: 'key:ci', tenant: 'other' }),
    ])
    await addRows(database, 'queue', [
      { call_id: 'waits', tenant: 'acme' },
      { call_id: 'later', tenant: 'acme', lane: 'later' },
      { call_id: 'asked', tenant: 'acme', lane: 'asked', fence: 1 },
      { call_id: 'runs', tenant: 'acme', lease_until: ago(-60_000), claimed_at: ago(0), fence: 1 },
      { call_id: 'other', tenant: 'acme' },
      { call_id: 'elsewhere', tenant: 'other' },
    ])
    const pending = await keyRecords(database).pending('acme', 'key:ci')
    assert.deepEqual([...pending].sort(), ['asked', 'later', 'waits'])
  },

  'keys are listed in pages, newest first': async ({ database }) => {
    const keys = keyRecords(database)
    for (const id of ['aaaaaaaaaaaa', 'bbbbbbbbbbbb', 'cccccccccccc']) await keys.add(someKey(id), maker)
    const first = await keys.list({ limit: 2 }, 'acme')
    const rest = await keys.list({ limit: 2, cursor: first.cursor ?? '' }, 'acme')
    assert.deepEqual(
      [...first.items, ...rest.items].map(({ id }) => id),
      ['cccccccccccc', 'bbbbbbbbbbbb', 'aaaaaaaaaaaa'],
    )
    assert.equal(rest.cursor, undefined)
  },

  'lastUsedAt is written at most once a minute': async ({ database }) => {
    const keys = keyRecords(database)
    await keys.add(someKey('aaaaaaaaaaaa'), maker)
    const lastUse = async (): Promise<string | undefined> => (await keys.get('aaaaaaaaaaaa', 'acme')).lastUsedAt
    assert.equal(await lastUse(), undefined)
    await keys.used(['aaaaaaaaaaaa', 'gone'])
    const first = await lastUse()
    assert.notEqual(first, undefined)
    await keys.used(['aaaaaaaaaaaa'])
    assert.equal(await lastUse(), first)
    await database.query(`update api_keys set last_used_at = last_used_at - interval '2 minutes'`)
    await keys.used(['aaaaaaaaaaaa'])
    assert.ok(Date.parse((await lastUse()) ?? '') >= Date.parse(first ?? ''))
  },
})
