import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Identity, ToolError } from '@gantry/contract'
import { memoryKeys } from '../../storage/keys/api-keys.fixture.ts'
import { createKeyControl, type KeyInput } from './key-control.ts'

const owner: Identity = { principal: 'owner', tenant: 'acme', permissions: ['*'] }
/** A caller who may create keys, and little else. */
const clerk: Identity = {
  principal: 'clerk',
  tenant: 'acme',
  permissions: ['gantry:keys', 'files:*'],
  roles: ['staff'],
  tools: ['files:*', 'demo:add'],
}
const denied = { code: 'DENIED' }

test('a key has the requested permissions, and its 256 random bits are not stored', async () => {
  const records = memoryKeys()
  const { key, text = '' } = await createKeyControl(records, async () => undefined).create(
    { name: 'ci', permissions: ['a:b'] },
    owner,
  )
  assert.match(text, /^gk_[a-z0-9]{12}_[A-Za-z0-9_-]{43}$/)
  assert.deepEqual([key.tenant, key.principal, key.permissions, key.kind], ['acme', 'key:ci', ['a:b'], 'bearer'])
  assert.equal(Math.round((Date.parse(key.expiresAt) - Date.parse(key.createdAt)) / 86_400_000), 90)
  const kept = JSON.stringify([await records.list({}, undefined), await records.find([key.id])])
  assert.ok(!kept.includes(text.slice(-43)))
})

test('a key cannot have more permissions than its maker', async () => {
  const control = createKeyControl(memoryKeys(), async () => undefined)
  const beyond: { readonly [what: string]: Omit<KeyInput, 'name'> } = {
    'all permissions': { permissions: ['*'] },
    'a wider pattern': { permissions: ['gantry:*'] },
    'another permission': { permissions: ['files:read', 'mail:send'] },
    'a permission that only begins alike': { permissions: ['filesystem:read'] },
    'another role': { roles: ['staff', 'admin'] },
    'another tenant': { tenant: 'other' },
    'the principal of another identity': { principal: 'owner' },
    'all tools': { tools: ['*'] },
    'a wider pattern of tools': { tools: ['demo:a*'] },
    'other tools': { tools: ['files:read', 'mail:*'] },
  }
  for (const [what, input] of Object.entries(beyond)) {
    await assert.rejects(control.create({ name: what, ...input }, clerk), denied, what)
    assert.ok(await control.create({ name: what, ...input }, owner), `${what} is the owner’s to give`)
  }
  const { key } = await control.create(
    { name: 'x', permissions: ['files:read'], roles: ['staff'], tools: ['files:read', 'demo:add:1.0.0'] },
    clerk,
  )
  assert.deepEqual(key.tools, ['files:read', 'demo:add:1.0.0'])
  assert.deepEqual((await control.create({ name: 'y' }, clerk)).key.tools, clerk.tools, 'bound like its maker')
  assert.equal((await control.create({ name: 'z', principal: 'clerk' }, clerk)).key.principal, 'clerk')
})

test('a key whose name looks like another is refused with the reason, as in tokens', async () => {
  const control = createKeyControl(memoryKeys(), async () => undefined)
  for (const hidden of [
    '\u200b',
    '\u202e',
    '\u2066',
    '\u00ad',
    '\ufeff',
    '\u{e0041}',
    '\u0085',
    '\u2028',
    '\n',
    '\ud800',
    // Blank letters, variation selectors, joiners, unusual spaces, or two spaces.
    '\u3164',
    '\uffa0',
    '\u115f',
    '\u2800',
    '\u{1d159}',
    '\ufe0f',
    '\u{e0100}',
    '\u034f',
    '\u17b4',
    '\u180b',
    '\u00a0',
    '\u2003',
    '\u202f',
    '\u3000',
    '\u1680',
    '  ',
    // A letter in its decomposed form.
    'e\u0301',
  ]) {
    const text = `al${hidden}ice`
    for (const [path, input] of [
      ['/name', { name: text, principal: 'bob' }],
      ['/principal', { name: 'ci', principal: text }],
      ['/tenant', { name: 'ci', tenant: text }],
      ['/permissions/1', { name: 'ci', permissions: ['a:b', text] }],
      ['/roles/0', { name: 'ci', roles: [text] }],
    ] as const) {
      const error = await control.create(input, owner).catch((thrown: unknown) => thrown)
      assert.ok(ToolError.is(error), `${path} ${JSON.stringify(text)}`)
      assert.deepEqual([error.code, error.details?.issues?.[0]?.path], ['INPUT_INVALID', path])
      assert.ok(!error.message.includes(hidden))
    }
  }
  for (const name of [' ia', 'ia ', 'ia\u00a0', ' ', 'ia\u3164']) {
    await assert.rejects(control.create({ name }, owner), { code: 'INPUT_INVALID' }, JSON.stringify(name))
  }
  const { key } = await control.create({ name: 'Zoë 東京 🙂', principal: 'zoë o’neil' }, owner)
  assert.deepEqual([key.name, key.principal], ['Zoë 東京 🙂', 'zoë o’neil'])
})

test('a caller without * cannot create a key for a principal that has or had a key of another maker', async () => {
  const control = createKeyControl(memoryKeys(), async () => undefined)
  const maker: Identity = { ...clerk, permissions: [...clerk.permissions, 'gantry:tenants'] }
  const { key } = await control.create({ name: 'deploy' }, owner)
  await control.create({ name: 'theirs', tenant: 'other' }, { ...owner, principal: 'clerk' })
  await control.revoke(key.id, owner)
  for (const input of [{ name: 'deploy' }, { name: 'zz', principal: 'key:deploy' }]) {
    await assert.rejects(control.create(input, clerk), { code: 'DENIED', message: /Another maker has or had a key/ })
  }
  const namesake: Identity = { ...clerk, tenant: 'other' }
  await assert.rejects(control.create({ name: 'theirs' }, namesake), denied, 'one of the same name elsewhere made it')
  assert.ok(await control.create({ name: 'deploy' }, owner), 'a holder of * may')
  assert.ok(await control.create({ name: 'deploy', tenant: 'other' }, maker), 'there never was one in that tenant')
  assert.ok(await control.create({ name: 'own' }, clerk))
  assert.ok(await control.create({ name: 'again', principal: 'key:own' }, clerk), 'the clerk made the first one')
})

test('revoking a key cancels the waiting calls of its principal only with cancelCalls', async () => {
  const cancelled: unknown[] = []
  const asked: unknown[] = []
  const records = {
    ...memoryKeys(),
    async pending(...whose: string[]) {
      asked.push(whose)
      return ['c1', 'c2']
    },
  }
  const control = createKeyControl(records, async (callId, tenant, by) => {
    cancelled.push([callId, tenant, by.principal])
  })
  const { key: one } = await control.create({ name: 'one' }, owner)
  const { key: two } = await control.create({ name: 'two' }, owner)
  await control.revoke(one.id, owner)
  assert.deepEqual(cancelled, [])
  await control.revoke(two.id, owner, { cancelCalls: true })
  assert.deepEqual(asked, [['acme', 'key:two']])
  assert.deepEqual(cancelled, [
    ['c1', 'acme', 'owner'],
    ['c2', 'acme', 'owner'],
  ])
})

test('a point of small order is refused as a public key, in every encoding', async () => {
  const control = createKeyControl(memoryKeys(), async () => undefined)
  const prime = (1n << 255n) - 19n
  const eighth = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n
  const points = [0n, 1n, prime - 1n, prime, prime + 1n, eighth, prime - eighth]
  for (const y of points) {
    for (const sign of [0n, 1n << 255n]) {
      const bytes = Buffer.from((y + sign).toString(16).padStart(64, '0'), 'hex').reverse()
      const making = control.create({ name: 'x', publicKey: bytes.toString('base64url') }, owner)
      await assert.rejects(making, { code: 'INPUT_INVALID' }, bytes.toString('hex'))
    }
  }
  const publicKey = '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo'
  assert.equal((await control.create({ name: 'x', publicKey }, owner)).key.kind, 'signing')
})

test('rotating a key gives no permission that the caller lacks', async () => {
  const control = createKeyControl(memoryKeys(), async () => undefined)
  const { key: strong } = await control.create({ name: 'admin', permissions: ['*'] }, owner)
  await assert.rejects(control.rotate(strong.id, {}, clerk), denied)
  const { key: weak } = await control.create({ name: 'weak', permissions: ['files:read'], tools: ['files:*'] }, clerk)
  const { key, text } = await control.rotate(weak.id, {}, clerk)
  assert.deepEqual([key.replaces, key.permissions, key.tools], [weak.id, ['files:read'], ['files:*']])
  assert.ok(text?.includes(key.id))
})

test('a caller without * cannot rotate a key for the principal of another maker', async () => {
  const control = createKeyControl(memoryKeys(), async () => undefined)
  const weaker = { permissions: ['files:read'], tools: ['files:*'] }
  const { key: theirs } = await control.create({ name: 'deploy', ...weaker }, owner)
  await assert.rejects(control.rotate(theirs.id, {}, clerk), {
    code: 'DENIED',
    message: /Another maker has or had a key/,
  })
  const { key: next } = await control.rotate(theirs.id, {}, owner)
  await assert.rejects(control.rotate(next.id, {}, clerk), denied, 'its successor is no other’s either')
  const { key: mine } = await control.create({ name: 'mine', ...weaker }, clerk)
  const { key: after } = await control.rotate(mine.id, {}, owner)
  assert.equal((await control.rotate(after.id, {}, clerk)).key.principal, 'key:mine', 'the clerk made the first one')
  const { key: given } = await control.create({ name: 'given', principal: 'clerk', ...weaker }, owner)
  assert.equal((await control.rotate(given.id, {}, clerk)).key.principal, 'clerk', 'the principal is the clerk')
})

test('keys of another tenant are not found, unless the caller holds gantry:tenants', async () => {
  const control = createKeyControl(memoryKeys(), async () => undefined)
  const { key } = await control.create({ name: 'theirs', tenant: 'other' }, owner)
  for (const work of [control.revoke(key.id, clerk), control.rotate(key.id, {}, clerk)]) {
    await assert.rejects(work, { code: 'NOT_FOUND' })
  }
  assert.deepEqual((await control.list({}, clerk)).items, [])
  await assert.rejects(control.list({ tenant: 'other' }, clerk), denied)
  await assert.rejects(control.list({ tenant: '*' }, clerk), denied)
  assert.equal((await control.list({ tenant: '*' }, owner)).items.length, 1)
  assert.equal((await control.list({}, owner)).items.length, 0)
  assert.equal((await control.revoke(key.id, owner)).state, 'revoked')
})

test('a malformed pattern or public key is refused with its path', async () => {
  const control = createKeyControl(memoryKeys(), async () => undefined)
  for (const [input, path] of [
    [{ tools: ['files:read', '*:delete'] }, '/tools/1'],
    [{ publicKey: 'A'.repeat(42) }, '/publicKey'],
  ] as const) {
    await assert.rejects(
      control.create({ name: 'x', ...input }, owner),
      (error: { details: { issues: { path: string }[] } }) => {
        assert.equal(error.details.issues[0]?.path, path)
        return true
      },
    )
  }
  const { key } = await control.create({ name: 'x' }, owner)
  const rotating = control.rotate(key.id, { publicKey: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' }, owner)
  await assert.rejects(rotating, { code: 'INPUT_INVALID' })
})
