import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { signedHeaders, somePair } from '../src/http/authentication/signed-request.fixture.ts'
import { startIssuer } from '../src/http/authentication/token.fixture.ts'
import { openPostgres } from '../src/storage/databases/postgres.ts'
import { postgresDatabase } from './databases.fixture.ts'
import { raw, startIdentityRig } from './identity.fixture.ts'
import { serviceFolder, startServe, until } from './serve.fixture.ts'
import { gantry } from './spawn.fixture.ts'

test('a key revoked in one process is rejected in another by notification, not by cache expiry', async (t) => {
  const { url, database } = await postgresDatabase(t)
  const second = await openPostgres({ url })
  t.after(() => second.close())
  const here = await startIdentityRig(t, database.asService())
  const there = await startIdentityRig(t, second.asService(), { now: () => 0 })
  const { key, text } = await here.make({ name: 'ci' })
  const { text: other } = await here.make({ name: 'other' })
  for (const one of [text, other]) assert.equal((await there.ask('/v1/tools', one)).status, 200)
  await here.ask(`/v1/keys/${key.id}/revoke`, here.ownerKey, { method: 'POST' })
  await until(t, async () => (await there.ask('/v1/tools', text)).status === 401)
  assert.equal((await there.ask('/v1/tools', other)).status, 200, 'the other key stays valid')
})

test('a signed request is accepted once by all processes together', async (t) => {
  const { url, database } = await postgresDatabase(t)
  const second = await openPostgres({ url })
  t.after(() => second.close())
  const rigs = [await startIdentityRig(t, database.asService()), await startIdentityRig(t, second.asService())]
  const { privateKey, publicKey } = somePair()
  const made = await rigs[0]?.make({ name: 'bot', publicKey })
  const sign = () => signedHeaders({ keyId: made?.key.id ?? '', privateKey, path: '/v1/tools' })
  const storm = async (): Promise<readonly number[]> => {
    const headers = sign()
    const asked = Array.from({ length: 10 }, (_, index) =>
      raw(rigs[index % 2]?.server.url ?? '', '/v1/tools', 'GET', headers, ''),
    )
    return (await Promise.all(asked)).map(([status]) => status)
  }
  for (let time = 0; time < 3; time += 1) {
    assert.deepEqual((await storm()).toSorted(), [200, ...Array(9).fill(401)])
  }
})

test('gantry keys creates, rotates and revokes keys for every process of a service', async (t) => {
  const { url } = await postgresDatabase(t)
  const [folder, away] = [serviceFolder(t), serviceFolder(t)]
  const environment = { DATABASE_URL: url }
  const [here, there] = [startServe(t, folder, { environment }), startServe(t, away, { environment })]
  const elsewhere = await there.ready
  await here.ready
  const command = async (...line: string[]): Promise<string> => {
    const ended = await gantry(line, { folder, cache: join(folder, '.cache') })
    assert.equal(ended.code, 0, ended.err)
    return ended.out.trim()
  }
  const status = async (key: string): Promise<number> =>
    (await fetch(`${elsewhere}/v1/tools`, { headers: { authorization: `Bearer ${key}` } })).status
  const first = await command('keys', 'create', 'ci', '--permission', 'files:read', '--days', '1')
  assert.equal(await status(first), 200)
  const { value } = await there.get('/v1/keys')
  const [made] = value.items
  assert.deepEqual([made.name, made.permissions, made.createdBy, made.state], ['ci', ['files:read'], 'owner', 'live'])
  const next = await command('keys', 'rotate', made.id, '--overlap', '1s')
  assert.equal(await status(next), 200)
  await until(t, async () => (await status(first)) === 401)
  await command('keys', 'revoke', next.split('_')[1] ?? '')
  await until(t, async () => (await status(next)) === 401)

  const signing = await command('keys', 'create', 'bot', '--signing', '--tools', 'demo:*')
  const asBot = { GANTRY_URL: elsewhere, GANTRY_KEY: signing }
  const ran = await gantry(['run', 'demo:add', '{"a":5,"b":3}', '--json'], {
    folder,
    cache: join(folder, '.cache'),
    environment: asBot,
  })
  assert.deepEqual(JSON.parse(ran.out).output, { result: 8 })
  for (const { printed } of [here, there]) {
    for (const secret of [first, next, signing]) assert.ok(!`${printed.out}${printed.err}`.includes(secret.slice(-43)))
  }
})

test('gantry serve accepts a token while its issuer is configured, and rejects it once the issuer is removed', async (t) => {
  const { url } = await postgresDatabase(t)
  const { issuer, token, url: login } = await startIssuer(t)
  const { issuer: iss, audience, claims, grants } = issuer
  const said = { issuer: iss, name: 'login', audience, claims, grants, jwksUrl: `${login}/jwks` }
  const folder = serviceFolder(t)
  const file = join(folder, 'gantry.config.json')
  const write = (jwt: readonly object[]): void =>
    writeFileSync(file, JSON.stringify({ demo: true, authentication: { jwt } }))
  write([said])
  const service = startServe(t, folder, { environment: { DATABASE_URL: url } })
  const headers = { authorization: `Bearer ${await token()}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ tool: 'demo:add', args: { a: 5, b: 3 } })
  const { output } = (await (await service.ask('/v1/calls', { method: 'POST', body, headers })).json()) as {
    output: object
  }
  assert.deepEqual(output, { result: 8 })
  const { items } = (await (await service.ask('/v1/calls', { headers })).json()) as { items: { principal: string }[] }
  assert.equal(items[0]?.principal, 'login:alice')
  write([])
  await until(t, async () => (await service.ask('/v1/calls', { headers })).status === 401)
  assert.equal((await service.get('/v1/calls')).status, 200, 'the key of the key file stays valid')
})
