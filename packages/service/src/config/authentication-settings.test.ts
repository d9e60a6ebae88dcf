import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { type AuthenticationSettings, defaultAuthentication } from './authentication-settings.ts'
import { folderWith } from './config.fixture.ts'
import { loadConfig } from './load.ts'

const { signal } = new AbortController()
const keys = '{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"k1"}]}'

async function settings(authentication: unknown): Promise<AuthenticationSettings> {
  const files = { 'keys/set.json': keys, 'keys/other.json': '{"keys":7}', 'keys/broken.json': '{' }
  using folder = folderWith({ ...files, 'gantry.config.json': JSON.stringify({ authentication }) })
  return (await loadConfig({ folder: folder.path, environment: {}, signal })).service.authentication
}

async function wrong(authentication: unknown): Promise<string> {
  try {
    await settings(authentication)
  } catch (error) {
    assert.ok(ToolError.is(error) && error.code === 'CONFIG_INVALID', String(error))
    return (error.details?.issues ?? []).map(({ path, message }) => `${path} ${message}`).join('\n')
  }
  return assert.fail(`${JSON.stringify(authentication)} was accepted`)
}

const issuer = { issuer: 'https://login.example.com/', audience: 'gantry', jwksUrl: 'https://login.example.com/jwks' }
const jwt = (given: object): unknown => ({ jwt: [{ ...issuer, tenant: 'acme', ...given }] })

test('by default API keys and signed requests are accepted, and tokens are not', async () => {
  assert.deepEqual(await settings(undefined), defaultAuthentication)
  assert.deepEqual(await settings({ signed: false }), { keys: true, signed: false, jwt: [] })
})

test('an issuer has its verification settings, with asymmetric algorithms and no grants by default', async () => {
  const [one] = (await settings(jwt({}))).jwt
  assert.deepEqual(one, {
    issuer: issuer.issuer,
    name: 'login.example.com',
    audience: ['gantry'],
    grants: [],
    leewaySeconds: 30,
    keys: { url: issuer.jwksUrl },
    claims: { principal: 'sub' },
    tenant: 'acme',
    algorithms: ['RS256', 'PS256', 'ES256', 'EdDSA', 'Ed25519'],
  })
  const file = { issuer: 'corp', name: 'corp', audience: ['a', 'b'], jwksFile: 'keys/set.json' }
  const claims = { principal: 'email', tenant: 'org', roles: '/realm_access/roles', permissions: 'scope' }
  const [other] = (
    await settings({ jwt: [{ ...file, claims, tenants: ['x'], grants: ['files:*'], leewaySeconds: 0 }] })
  ).jwt
  assert.deepEqual(other?.keys, { set: JSON.parse(keys) })
  assert.deepEqual(
    [other?.claims, other?.tenants, other?.grants, other?.leewaySeconds],
    [claims, ['x'], ['files:*'], 0],
  )
})

test('default names of issuers contain no colon, which separates the issuer from the subject in a principal', async () => {
  const issuers = ['https://login.example.com:8443/', 'urn:corp:login']
  const { jwt } = await settings({ jwt: issuers.map((one) => ({ ...issuer, tenant: 'acme', issuer: one })) })
  assert.deepEqual(
    jwt.map(({ name }) => name),
    ['login.example.com-8443', 'urn-corp-login'],
  )
})

test('a setting that weakens token verification is refused with its path', async () => {
  for (const [said, path] of [
    [{ leewaySeconds: 61 }, '/authentication/jwt/0/leewaySeconds'],
    [{ leewaySeconds: -1 }, '/authentication/jwt/0/leewaySeconds'],
    [{ algorithms: ['HS256'] }, '/authentication/jwt/0/algorithms/0'],
    [{ algorithms: ['RS256', 'none'] }, '/authentication/jwt/0/algorithms/1'],
    [{ algorithms: [] }, '/authentication/jwt/0/algorithms'],
    [{ audience: [] }, '/authentication/jwt/0/audience'],
    [{ audience: undefined }, '/authentication/jwt/0'],
    [{ jwksUrl: 'http://login.example.com/jwks' }, '/authentication/jwt/0/jwksUrl must be https'],
    [{ jwksUrl: undefined }, '/authentication/jwt/0 must have exactly one of jwksUrl and jwksFile'],
    [{ jwksFile: 'keys/set.json' }, '/authentication/jwt/0 must have exactly one of jwksUrl and jwksFile'],
    [{ jwksUrl: undefined, jwksFile: 'nothing.json' }, '/authentication/jwt/0/jwksFile'],
    [{ jwksUrl: undefined, jwksFile: 'keys/other.json' }, '/authentication/jwt/0/jwksFile'],
    [{ jwksUrl: undefined, jwksFile: 'keys/broken.json' }, '/authentication/jwt/0/jwksFile'],
    [{ tenant: undefined }, '/authentication/jwt/0 must have exactly one of tenant'],
    [{ claims: { tenant: 'org' } }, '/authentication/jwt/0 must have exactly one of tenant'],
    [{ name: 'key' }, '/authentication/jwt/0/name'],
    [{ tenants: ['x'] }, '/authentication/jwt/0/tenants'],
    [{ clams: {} }, 'did you mean claims?'],
    [{ claims: { subject: 'sub' } }, '/authentication/jwt/0/claims/subject'],
  ] as const) {
    assert.ok((await wrong(jwt(said))).includes(path), `${JSON.stringify(said)}: ${await wrong(jwt(said))}`)
  }
  assert.match(await wrong({ jwt: [null] }), /^\/authentication\/jwt\/0 /)
  assert.match(await wrong({ keys: 'yes' }), /^\/authentication\/keys /)
  const twice = { ...issuer, tenant: 'acme', issuer: 'https://login.example.com/second' }
  const both = await wrong({ jwt: [{ ...issuer, tenant: 'acme' }, twice] })
  assert.match(both, /^\/authentication\/jwt\/1 has the issuer or the name of \/authentication\/jwt\/0/)
  assert.equal(
    (
      await settings({
        jwt: [
          { ...issuer, tenant: 'acme' },
          { ...twice, name: 'second' },
        ],
      })
    ).jwt.length,
    2,
  )
})
