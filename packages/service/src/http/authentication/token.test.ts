import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { type AddressInfo, createServer } from 'node:net'
import { type TestContext, test } from 'node:test'
import { decodeJwt, exportJWK, exportSPKI, generateKeyPair, importJWK, SignJWT } from 'jose'
import type { TokenIssuer } from '../../config/authentication-settings.ts'
import { testAuthenticator } from '../../conformance/authenticator.ts'
import { type Authenticator, unauthenticated } from './authenticator.ts'
import { startIssuer, type TestIssuer } from './token.fixture.ts'
import { tokenAuthenticator } from './token.ts'

const { signal } = new AbortController()
const refused = { code: 'UNAUTHENTICATED', message: unauthenticated().message }
const shown = (token: string) => ({ method: 'GET', path: '/', headers: { authorization: `Bearer ${token}` } })
const identity = { principal: 'login:alice', tenant: 'acme', permissions: ['files:read'], roles: ['staff'] }
const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
const seconds = (): number => Math.floor(Date.now() / 1_000)

async function rig(
  t: TestContext,
  given: Partial<TokenIssuer> = {},
): Promise<TestIssuer & { ask(token: string): ReturnType<Authenticator['authenticate']> }> {
  const made = await startIssuer(t, given)
  const authenticator = tokenAuthenticator([made.issuer])
  return { ...made, ask: (token) => authenticator.authenticate(shown(token), signal) }
}

/** An address where no server listens any more. */
async function nowhere(): Promise<string> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return `http://127.0.0.1:${port}/`
}

/** Tokens that are invalid in every known way. */
async function forgeries({ token, keys, url }: TestIssuer): Promise<{ [what: string]: string }> {
  const good = await token()
  const [head = '', body = '', signature = ''] = good.split('.')
  const stolen = await exportSPKI(keys.publicKey)
  const hmac = (over: object): string => {
    const signed = `${part(over)}.${body}`
    return `${signed}.${createHmac('sha256', stolen).update(signed).digest('base64url')}`
  }
  const mine = await generateKeyPair('RS256')
  const own = (more: object): Promise<string> =>
    new SignJWT(JSON.parse(Buffer.from(body, 'base64url').toString()))
      .setProtectedHeader({ alg: 'RS256', kid: 'k1', ...more })
      .sign(mine.privateKey)
  return {
    'alg none': `${part({ alg: 'none', typ: 'JWT' })}.${body}.`,
    'alg None': `${part({ alg: 'None' })}.${body}.`,
    'alg none with the signature': `${part({ alg: 'none' })}.${body}.${signature}`,
    'the public key as a secret': hmac({ alg: 'HS256', kid: 'k1', typ: 'JWT' }),
    'an algorithm that is not configured': `${part({ alg: 'PS256', kid: 'k1' })}.${body}.${signature}`,
    'no signature': `${head}.${body}.`,
    'another body': `${head}.${part({ iss: 'https://login.example.com/', aud: 'gantry', sub: 'root', exp: seconds() + 60 })}.${signature}`,
    'a kid that is a path': await token({}, { kid: '../../../../dev/null' }),
    'a kid that is SQL': await token({}, { kid: `k1' union select 'x` }),
    'a key of the sender': await own({}),
    'a key of the sender in the head': await own({
      jwk: await exportJWK(mine.publicKey),
    }),
    'keys at an address of the sender': await own({ jku: `${url}/evil` }),
    'a certificate at an address of the sender': await own({ x5u: `${url}/evil` }),
    'something critical that is not known': await token({}, { crit: ['exp'] }).catch(
      () => `${part({ alg: 'RS256', crit: ['x'], x: 1 })}.${body}.${signature}`,
    ),
    'another audience': await token({ aud: 'other' }),
    'no audience': await token({ aud: undefined as never }),
    'another issuer': await token({ iss: 'https://evil.example.com/' }),
    'an issuer that only begins alike': await token({ iss: 'https://login.example.com/evil' }),
    'no issuer': await token({ iss: undefined as never }),
    expired: await token({ exp: seconds() - 31 }),
    'no end': await token({ exp: undefined as never }),
    'an end that is a text': await token({ exp: '99999999999' as never }),
    'not yet good': await token({ nbf: seconds() + 60 }),
    'made in the future': await token({ iat: seconds() + 60 }),
    'another type': await token({}, { typ: 'logout+jwt' }),
    'no subject': await token({ sub: undefined as never }),
    'a subject that is a list': await token({ sub: ['alice'] as never }),
    'a subject with a line end': await token({ sub: 'alice\nroot' }),
    'a subject that turns the text around': await token({ sub: 'alice\u202etoor' }),
    'a subject with an invisible character': await token({ sub: 'alice\u200b' }),
    'a subject with a letter that is blank': await token({ sub: 'alice\u3164' }),
    'a subject with a space at its end': await token({ sub: 'alice ' }),
    'a subject with a letter in two parts': await token({ sub: 'zoe\u0308' }),
    'a subject with a separator of lines': await token({ sub: 'alice\u2028root' }),
    'a tenant that turns the text around': await token({ tenant: 'ac\u2067me' }),
    'a tenant with a control character': await token({ tenant: 'acme\u0085' }),
    'no tenant': await token({ tenant: undefined }),
    'a tenant that stands for all': await token({ tenant: '*' }),
    'a tenant that is a list': await token({ tenant: ['acme', 'other'] }),
    'roles that are an object': await token({ realm_access: { roles: { admin: true } } }),
    'not JSON': `${Buffer.from('{').toString('base64url')}.${body}.${signature}`,
  }
}

testAuthenticator('token', async (t) => {
  const made = await startIssuer(t)
  return {
    authenticator: tokenAuthenticator([made.issuer]),
    good: async () => ({ presented: shown(await made.token()), identity }),
    wrong: async () =>
      Object.fromEntries(Object.entries(await forgeries(made)).map(([what, token]) => [what, shown(token)])),
    cut() {
      made.server.status = 500
    },
  }
})

test('every forged token is refused, and nothing but the configured key set is fetched', async (t) => {
  const { ask, asked, ...made } = await rig(t)
  for (const [what, token] of Object.entries(await forgeries({ ...made, asked }))) {
    await assert.rejects(ask(token), refused, what)
  }
  assert.deepEqual((await ask(await made.token()))?.identity, identity)
  assert.deepEqual(asked, ['/jwks'])
})

test('tokens of every allowed algorithm are accepted', async (t) => {
  for (const alg of ['RS256', 'PS256', 'ES256', 'EdDSA']) {
    const { issuer, token } = await startIssuer(t, {}, alg)
    const known = await tokenAuthenticator([issuer]).authenticate(shown(await token()), signal)
    assert.deepEqual(known?.identity, identity, alg)
  }
})

test('a valid signature by an algorithm that is not configured is refused', async (t) => {
  const made = await startIssuer(t)
  const { alg: _alg, ...rsa } = { ...(await exportJWK(made.keys.privateKey)), kid: 'k1', alg: 'RS256' }
  const shared = { kty: 'oct', k: Buffer.from('x'.repeat(64)).toString('base64url'), kid: 's1' }
  const { d: _d, p: _p, q: _q, dp: _dp, dq: _dq, qi: _qi, ...open } = rsa
  const issuer = { ...made.issuer, keys: { set: { keys: [open, shared] } } }
  const claims = decodeJwt(await made.token())
  const tokens = await Promise.all(
    (['RS256', 'PS256', 'HS256'] as const).map(async (alg) => {
      const key = await importJWK(alg === 'HS256' ? shared : rsa, alg)
      return new SignJWT(claims).setProtectedHeader({ alg, kid: alg === 'HS256' ? 's1' : 'k1' }).sign(key)
    }),
  )
  const ask = (token: string, algorithms: readonly string[]) =>
    tokenAuthenticator([{ ...issuer, algorithms }]).authenticate(shown(token), signal)
  const [rs = '', ps = '', hs = ''] = tokens
  assert.ok(await ask(rs, ['RS256']))
  assert.ok(await ask(ps, ['PS256']))
  for (const [token, algorithms] of [
    [ps, ['RS256']],
    [rs, ['PS256', 'ES256']],
    [hs, ['RS256', 'PS256']],
  ] as const) {
    await assert.rejects(ask(token, algorithms), refused)
  }
})

test('a token grants only permissions and tenants that its issuer may grant', async (t) => {
  const limited = await rig(t, { tenants: ['acme'] })
  assert.deepEqual((await limited.ask(await limited.token()))?.identity.permissions, ['files:read'])
  await assert.rejects(limited.ask(await limited.token({ tenant: 'other' })), refused)
  const fixed = await rig(t, { claims: { principal: 'sub' }, tenant: 'fixed', grants: ['*'] })
  const known = await fixed.ask(await fixed.token({ tenant: 'other' }))
  assert.deepEqual(known?.identity, { principal: 'login:alice', tenant: 'fixed', permissions: [], roles: [] })
})

test('two issuers share neither principals nor keys', async (t) => {
  const first = await startIssuer(t)
  const second = await startIssuer(t, { issuer: 'https://other.example.com', name: 'other' })
  const authenticator = tokenAuthenticator([first.issuer, second.issuer])
  const ask = async (token: string) => (await authenticator.authenticate(shown(token), signal))?.identity.principal
  assert.equal(await ask(await first.token()), 'login:alice')
  assert.equal(await ask(await second.token()), 'other:alice')
  await assert.rejects(ask(await first.token({ iss: 'https://other.example.com' })), refused)
})

test('keys that cannot be fetched do not make a token wrong, are not fetched repeatedly, and a redirect is not followed', async (t) => {
  const { ask, asked, server, token, url } = await rig(t)
  server.status = 302
  server.location = `${url}/elsewhere`
  for (let time = 0; time < 5; time += 1) await assert.rejects(ask(await token()), { code: 'STORE_UNAVAILABLE' })
  assert.deepEqual(asked, ['/jwks'])
  const large = await rig(t)
  large.server.body = `{"keys":[],"x":"${'x'.repeat(300_000)}"}`
  await assert.rejects(large.ask(await large.token()), { code: 'STORE_UNAVAILABLE' })
})

test('a response without a key set means an unavailable issuer, whatever its status, and not a wrong token', async (t) => {
  const bodies = ['<html>Sign in</html>', '', 'null', '[]', '{}', '{"keys":{}}', '{"keys":["k1"]}', '{"keys":[null]}']
  for (const body of bodies) {
    const { ask, asked, server, token } = await rig(t)
    server.body = body
    for (let time = 0; time < 2; time += 1) {
      await assert.rejects(ask(await token()), { code: 'STORE_UNAVAILABLE', stage: 'authorize' }, body)
    }
    assert.equal(asked.length, 1, body)
  }
})

test('a failed fetch of issuer keys is reported with its reason, without the response, and so is the next success', async (t) => {
  const made = await startIssuer(t)
  const closed = await startIssuer(t, {
    name: 'closed',
    issuer: 'https://closed.example.com/',
    keys: { url: await nowhere() },
  })
  const reported: unknown[] = []
  const clock = { ms: Date.now() }
  const authenticator = tokenAuthenticator([made.issuer, closed.issuer], {
    now: () => clock.ms,
    onKeysFetched: ({ name }, fault) => reported.push([name, fault]),
  })
  const { body } = made.server
  for (const [status, text] of [
    [500, body],
    [200, '<html>hunter2</html>'],
    [200, `{"keys":[],"x":"${'x'.repeat(300_000)}"}`],
    [200, body],
  ] as const) {
    Object.assign(made.server, { status, body: text })
    const asking = authenticator.authenticate(shown(await made.token()), signal)
    if (text === body && status === 200) await asking
    else await assert.rejects(asking, { code: 'STORE_UNAVAILABLE' })
    clock.ms += 5_000
  }
  await assert.rejects(authenticator.authenticate(shown(await closed.token()), signal), { code: 'STORE_UNAVAILABLE' })
  assert.deepEqual(reported, [
    ['login', 'The key set URL returned the status 500.'],
    ['login', 'The key set URL returned no JSON Web Key Set.'],
    ['login', 'The key set URL returned more than 262144 bytes.'],
    ['login', undefined],
    ['closed', 'The key set URL is unreachable: ECONNREFUSED.'],
  ])
})

test('a verified token is cached, and not accepted beyond its expiry', async (t) => {
  const made = await startIssuer(t, { leewaySeconds: 0 })
  const clock = { ms: seconds() * 1_000 }
  const authenticator = tokenAuthenticator([made.issuer], { now: () => clock.ms })
  const token = await made.token({ exp: clock.ms / 1_000 + 10 })
  assert.ok(await authenticator.authenticate(shown(token), signal))
  clock.ms += 9_000
  assert.ok(await authenticator.authenticate(shown(token), signal))
  clock.ms += 1_000
  await assert.rejects(authenticator.authenticate(shown(token), signal), refused)
})
