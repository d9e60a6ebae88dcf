import assert from 'node:assert/strict'
import { createPublicKey } from 'node:crypto'
import { test } from 'node:test'
import { startServiceRig } from '../service.fixture.ts'

test('keys create prints only the key on stdout, and its details on stderr', async (t) => {
  const { gantry, json } = await startServiceRig(t)
  assert.equal((await gantry(['keys', 'ls'])).out, 'No keys.\n')
  const line = [
    'keys',
    'create',
    'ci',
    '--permission',
    'a:b',
    '--permission',
    'c:*',
    '--tools',
    'demo:*',
    '--days',
    '2',
  ]
  const { code, out, err } = await gantry([...line, '--grant-role', 'staff'])
  assert.equal(code, 0)
  assert.match(out, /^gk_[a-z0-9]{12}_[\w-]{43}\n$/)
  assert.match(err, /^Made the key [a-z0-9]{12} \(ci\) for key:ci of acme\.\nIt expires 2\S+Z\. It is shown only once;/)
  assert.ok(!err.includes(out.trim().slice(-43)))
  const [page] = (await json(['keys', 'ls'])).values
  const [key] = page.items
  assert.deepEqual([key.permissions, key.roles, key.tools], [['a:b', 'c:*'], ['staff'], ['demo:*']])
  assert.equal(Math.round((Date.parse(key.expiresAt) - Date.parse(key.createdAt)) / 3_600_000), 48)
  const listed = await gantry(['keys', 'ls'])
  assert.match(listed.out, /\n[a-z0-9]{12} {2}live +bearer +ci +acme +key:ci +2\S+ +never +demo:\* +staff +a:b,c:\*\n$/)
  assert.match(err, /\nIt may call these tools, as far as the policy allows: demo:\*\.\n/)
  const made = await json(['keys', 'create', 'other', '--principal', 'bob', '--tenant', 'else'])
  assert.deepEqual([made.values[0].key.principal, made.values[0].key.tenant], ['bob', 'else'])
  assert.ok(made.values[0].text.includes(made.values[0].key.id))
})

test('keys create without --tools warns that the key may call every tool, and keys ls says so', async (t) => {
  const { gantry } = await startServiceRig(t)
  const { code, err } = await gantry(['keys', 'create', 'all'])
  assert.equal(code, 0)
  assert.match(err, /\nWARNING: it may call every tool that the policy allows, because no --tools limits it\./)
  const listed = await gantry(['keys', 'ls'])
  assert.match(listed.out, / used +tools +roles +may\n.* all tools +- +-\n$/s)
})

test('keys create --signing generates the key pair locally and sends only the public key', async (t) => {
  const { gantry, service } = await startServiceRig(t)
  const sent: unknown[] = []
  const { create } = service.keys
  Object.assign(service.keys, {
    create(input: object, ...rest: [never]) {
      sent.push(input)
      return create(input as never, ...rest)
    },
  })
  const { out } = await gantry(['keys', 'create', 'bot', '--signing'])
  const [, id, seed = ''] = /^gs_([a-z0-9]{12})_([\w-]{43})\n$/.exec(out) ?? []
  assert.ok(id !== undefined)
  const [{ publicKey }] = sent as [{ publicKey: string }]
  assert.ok(!JSON.stringify(sent).includes(seed))
  assert.ok(createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: publicKey }, format: 'jwk' }))
  const rotated = await gantry(['keys', 'rotate', id, '--signing'])
  assert.match(rotated.out, /^gs_[a-z0-9]{12}_[\w-]{43}\n$/)
  assert.equal((await gantry(['keys', 'rotate', id])).code, 2, 'a key that signs has a public half')
})

test('keys rotate and revoke act on one key and confirm it', async (t) => {
  const { gantry, json } = await startServiceRig(t)
  const [{ key }] = (await json(['keys', 'create', 'ci'])).values
  const [next] = (await json(['keys', 'rotate', key.id, '--overlap', '60m', '--days', '1'])).values
  assert.deepEqual([next.key.replaces, next.key.name], [key.id, 'ci'])
  assert.equal((await gantry(['keys', 'revoke', key.id])).out, `Revoked ${key.id} (ci).\n`)
  assert.equal((await json(['keys', 'revoke', next.key.id])).values[0].state, 'revoked')
  const missing = await json(['keys', 'revoke', 'nothing'])
  assert.deepEqual([missing.code, missing.values[0].error.code], [2, 'NOT_FOUND'])
})
