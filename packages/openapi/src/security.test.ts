import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { bindingOf, importOf } from './openapi.fixture.ts'

const securitySchemes = {
  key: { type: 'apiKey', in: 'header', name: 'X-Key' },
  'que ry': { type: 'apiKey', in: 'query', name: 'k' },
  cookie: { type: 'apiKey', in: 'cookie', name: 'sid' },
  bearer: { type: 'http', scheme: 'Bearer' },
  basic: { type: 'http', scheme: 'basic' },
  oauth: { type: 'oauth2', flows: {} },
  oidc: { type: 'openIdConnect', openIdConnectUrl: 'https://x' },
  digest: { type: 'http', scheme: 'digest' },
  tls: { type: 'mutualTLS' },
  alias: { $ref: '#/components/securitySchemes/key' },
}
const components = { securitySchemes }

function authOf(security: unknown, general?: unknown) {
  const rest = { components, ...(general === undefined ? {} : { security: general }) }
  const made = importOf({ '/x': { get: security === undefined ? {} : { security } } }, rest)
  const [tool] = made.tools
  return { ...made, auth: tool && bindingOf(tool).auth, left: made.report.leftOut[0]?.reason }
}

test('each kind of scheme becomes references to secrets, which the report names', () => {
  for (const [scheme, auth, secrets] of [
    ['key', { type: 'header', name: 'X-Key', value: 'secret:api_key' }, ['api_key']],
    ['que ry', { type: 'query', name: 'k', value: 'secret:api_que_ry' }, ['api_que_ry']],
    ['cookie', { type: 'cookie', name: 'sid', value: 'secret:api_cookie' }, ['api_cookie']],
    ['bearer', { type: 'bearer', token: 'secret:api_bearer' }, ['api_bearer']],
    ['oauth', { type: 'bearer', token: 'secret:api_oauth' }, ['api_oauth']],
    ['oidc', { type: 'bearer', token: 'secret:api_oidc' }, ['api_oidc']],
    ['alias', { type: 'header', name: 'X-Key', value: 'secret:api_alias' }, ['api_alias']],
    [
      'basic',
      { type: 'basic', username: 'secret:api_basic_username', password: 'secret:api_basic_password' },
      ['api_basic_username', 'api_basic_password'],
    ],
  ] as const) {
    const found = authOf([{ [scheme]: [] }])
    assert.deepEqual(found.auth, auth)
    assert.deepEqual(
      found.report.secrets.map(({ name }) => name),
      secrets,
    )
  }
})

test('security of the document belongs to the backend, and a binding holds only what differs', () => {
  const general = [{ bearer: [] }]
  const bearer = { type: 'bearer', token: 'secret:api_bearer' }
  assert.deepEqual(authOf(undefined, general).backend.auth, bearer)
  assert.equal(authOf(undefined, general).auth, undefined)
  assert.equal(authOf([{ bearer: ['scope'] }], general).auth, undefined)
  assert.deepEqual(authOf([], general).auth, [])
  assert.deepEqual(authOf([{}], general).auth, [])
  assert.deepEqual(authOf([{ key: [] }], general).auth, { type: 'header', name: 'X-Key', value: 'secret:api_key' })
})

test('schemes required together become a list; the first supported alternative is used', () => {
  const together = authOf([{ key: [], bearer: [] }])
  assert.deepEqual(together.auth, [
    { type: 'header', name: 'X-Key', value: 'secret:api_key' },
    { type: 'bearer', token: 'secret:api_bearer' },
  ])
  const first = authOf([{ digest: [] }, { tls: [], key: [] }, { bearer: [] }, { key: [] }])
  assert.deepEqual(first.auth, { type: 'bearer', token: 'secret:api_bearer' })
  assert.match(first.report.warnings[0]?.message ?? '', /bearer is used$/)
  assert.equal(authOf([{}, { bearer: [] }]).auth, undefined)
  assert.deepEqual(authOf([{ bearer: [] }, {}]).auth, { type: 'bearer', token: 'secret:api_bearer' })
})

test('an operation whose credentials cannot be sent is left out', () => {
  for (const scheme of ['digest', 'tls', 'none', 'toString']) {
    assert.match(authOf([{ [scheme]: [] }]).left ?? '', /security scheme/)
  }
  const { left, tools } = authOf(undefined, [{ digest: [] }])
  assert.match(left ?? '', /not supported/)
  assert.equal(tools.length, 0)
})

const ok = { get: {} }
const at = (servers: unknown, options = {}) => importOf({ '/x': ok }, { servers }, options).baseUrl

function refusal(act: () => unknown): string {
  try {
    act()
  } catch (error) {
    if (ToolError.is(error)) return error.message
    throw error
  }
  return assert.fail('nothing was thrown')
}

test('the base URL is the first http server, with its variables at their defaults', () => {
  assert.equal(at([{ url: 'wss://x' }, { url: 'http://y/' }, { url: 'https://z' }]), 'http://y')
  const variables = { region: { default: 'eu' }, base: { default: 'v2' } }
  assert.equal(at([{ url: 'https://{region}.example.com/{base}/', variables }]), 'https://eu.example.com/v2')
  assert.equal(at([{ url: 'https://a' }], { baseUrl: 'http://localhost:8080/b' }), 'http://localhost:8080/b')
  assert.equal(
    at([{ url: '/api/v3' }], { location: 'https://h.example/docs/openapi.json' }),
    'https://h.example/api/v3',
  )
})

test('a document without a usable server is refused with a request for the base URL', () => {
  for (const servers of [
    undefined,
    [],
    [{ url: '/api' }],
    [{ url: 'ftp://x' }],
    [{ url: 'https://u:p@x' }],
    [{ url: 'https://{h}' }],
  ]) {
    assert.match(
      refusal(() => at(servers)),
      /give the base URL/,
    )
  }
})

test('an operation with its own server is imported when that server has the origin of the base URL, and left out otherwise', () => {
  const server = (url: string) => ({ get: {}, servers: [{ url }] })
  const paths = {
    '/same': server('https://api.example.com/v1/'),
    '/empty': { get: { servers: [] }, servers: [] },
    '/below': server('https://api.example.com/v1/files'),
    '/beside': server('https://api.example.com/v10'),
    '/away': { get: { servers: [{ url: 'https://evil.example' }] } },
  }
  const { tools, report } = importOf(paths)
  assert.deepEqual(
    tools.map((tool) => bindingOf(tool).path),
    ['/same', '/empty', '/files/below', '/beside'],
  )
  assert.deepEqual(
    report.leftOut.map(({ operation }) => operation),
    ['GET /away'],
  )
})
