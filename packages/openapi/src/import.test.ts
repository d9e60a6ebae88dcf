import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { importOpenapi } from './index.ts'
import { documentOf, importOf, toolOf } from './openapi.fixture.ts'

const ok = { responses: { 200: { description: 'ok' } } }

function codeOf(act: () => unknown): string {
  try {
    act()
  } catch (error) {
    if (ToolError.is(error)) return `${error.code} ${error.message}`
    throw error
  }
  return assert.fail('nothing was thrown')
}

test('each operation becomes a tool of the namespace, bound to one backend', () => {
  const { tools, backend, baseUrl, report } = importOf({
    '/pets': { get: { operationId: 'listPets', ...ok }, post: ok },
  })
  assert.deepEqual(
    tools.map(({ namespace, name, version, effect }) => [namespace, name, version, effect]),
    [
      ['api', 'listPets', '2.1.0', 'read'],
      ['api', 'post_pets', '2.1.0', 'once'],
    ],
  )
  assert.deepEqual(backend, { kind: 'http', name: 'api', baseUrl })
  assert.equal(baseUrl, 'https://api.example.com/v1')
  assert.deepEqual([report.imported, report.leftOut, report.warnings], [2, [], []])
})

test('a tool name has only allowed characters', () => {
  const named = (operationId: string) => toolOf('get', { operationId }).name
  assert.equal(named('repos/list-for user'), 'repos_list-for_user')
  assert.equal(named('..a..b'), 'a.b')
  assert.equal(named('日本'), 'get_x')
  assert.equal(named('x'.repeat(500)).length, 128)
  assert.equal(toolOf('get', {}, {}, '/a/{b}/c').name, 'get_a_b_c')
})

test('operations with the same tool name each get a suffix that does not depend on their order', () => {
  const first = { '/a': { get: { operationId: 'Same', ...ok } } }
  const second = { '/b': { get: { operationId: 'same', ...ok } } }
  const one = importOf({ ...first, ...second })
  const other = importOf({ ...second, ...first })
  const names = (made: typeof one) => made.tools.map(({ name }) => name).sort()
  assert.deepEqual(names(one), names(other))
  assert.equal(new Set(names(one).map((name) => name.toLowerCase())).size, 2)
  assert.equal(one.report.warnings.length, 2)
})

test('summary, description, tags and deprecation are imported', () => {
  const tool = toolOf('get', {
    summary: 'Lists',
    description: `Lists everything. ${'x'.repeat(3_000)}`,
    tags: ['Pet Store', 'A & B', '日本', 7],
    deprecated: true,
  })
  assert.equal(tool.title, 'Lists')
  assert.equal(tool.description.length, 2_000)
  assert.ok(tool.description.endsWith('…'))
  assert.equal(tool.docs?.length, 3_018)
  assert.deepEqual(tool.tags, ['pet-store', 'a-b'])
  assert.match(tool.deprecated?.message ?? '', /deprecated/)
  assert.equal(toolOf('get', {}).description, 'GET /x')
})

test('the effect follows from the method unless `effects` sets it, and the last matching rule takes precedence', () => {
  const paths = { '/a': { get: ok, put: ok, delete: ok, patch: ok, head: ok, options: ok } }
  const effects = (options: object) =>
    Object.fromEntries(importOf(paths, {}, options).tools.map(({ name, effect }) => [name, effect]))
  const usual = { get_a: 'read', put_a: 'once', delete_a: 'once', patch_a: 'once', head_a: 'read', options_a: 'read' }
  assert.deepEqual(effects({}), usual)
  const own = { PUT: 'keyed', 'p*': 'repeatable', patch_a: 'reconcilable' }
  assert.deepEqual(effects({ effects: own }), { ...usual, put_a: 'repeatable', patch_a: 'reconcilable' })
})

test('tags and patterns select operations, and the others are counted', () => {
  const paths = { '/a': { get: { tags: ['Big Cats'], ...ok }, put: { tags: ['dogs'], ...ok }, post: ok } }
  const chosen = (options: object) => {
    const { tools, report } = importOf(paths, {}, options)
    return [...tools.map(({ name }) => name), report.notChosen]
  }
  assert.deepEqual(chosen({ tags: ['big  cats'] }), ['get_a', 2])
  assert.deepEqual(chosen({ operations: ['P*'] }), ['put_a', 'post_a', 1])
  assert.deepEqual(chosen({ operations: ['get_a', 'api:post_a'] }), ['get_a', 'post_a', 1])
  assert.deepEqual(chosen({ operations: ['*'], tags: ['dogs'] }), ['put_a', 2])
})

test('an invalid semantic version becomes 1.0.0, and a pre-release becomes its stable version', () => {
  const versionOf = (version: unknown, options = {}) =>
    importOf({ '/a': { get: ok } }, { info: { version } }, options).tools[0]?.version
  assert.equal(versionOf('2024-01-01'), '1.0.0')
  assert.equal(versionOf(undefined), '1.0.0')
  assert.equal(versionOf('3.2.1-SNAPSHOT+x'), '3.2.1')
  assert.equal(versionOf('3.2.1', { version: '9.0.0-rc.1' }), '9.0.0-rc.1')
})

test('callbacks, webhooks and links are counted and TRACE is left out', () => {
  const responses = { 200: { description: '', links: { next: {}, last: {} } } }
  const paths = { '/a': { post: { callbacks: { done: {} }, responses }, trace: ok }, 'x-ignored': { get: ok } }
  const { report } = importOf(paths, { openapi: '3.1.0', webhooks: { pushed: {} } })
  assert.deepEqual(report.notImported, { callbacks: 1, webhooks: 1, links: 2 })
  assert.deepEqual(report.leftOut, [{ operation: 'TRACE /a', reason: 'TRACE is never sent' }])
})

test('an example is kept when it has every required argument and fits the schema', () => {
  const schema = { type: 'object', required: ['a'], properties: { a: { type: 'integer' }, id: { readOnly: true } } }
  const examples = {
    good: { summary: 'Good', value: { a: 1, id: 7 } },
    short: { value: {} },
    wrong: { value: { a: 'x' } },
  }
  const requestBody = { required: true, content: { 'application/json': { schema, examples } } }
  const parameters = [{ name: 'q', in: 'query', required: true, example: 'x', schema: { type: 'string' } }]
  assert.deepEqual(toolOf('post', { parameters, requestBody }).examples, [{ title: 'Good', args: { q: 'x', a: 1 } }])
})

test('an example is completed with values from the schema, or left out with a warning', () => {
  const made = (...schemas: readonly object[]) => {
    const parameters = [
      { name: 'a', in: 'query', example: 1, schema: { type: 'integer' } },
      ...schemas.map((schema, index) => ({ name: `q${index}`, in: 'query', required: true, schema })),
    ]
    const { tools, report } = importOf({ '/x': { get: { parameters, ...ok } } })
    return { args: tools[0]?.examples?.[0]?.args, warnings: report.warnings }
  }
  const named = [{ type: 'string', default: 'usual' }, { enum: ['first', 'second'] }]
  assert.deepEqual(made(...named), { args: { a: 1, q0: 'usual', q1: 'first' }, warnings: [] })
  const left = (message: string) => ({
    args: undefined,
    warnings: [
      { operation: 'GET /x', path: '/paths/~1x/get', message: `an example is left out, because it ${message}` },
    ],
  })
  assert.deepEqual(made({ type: 'string' }), left('has nothing for the required q0'))
  assert.deepEqual(made({ type: 'string', default: 5 }), left('does not fit the schema'))
  const none = importOf({ '/x': { get: { parameters: [{ name: 'a', in: 'query', required: true }], ...ok } } })
  assert.deepEqual(none.report.warnings, [])
})

test('the report names the selected server and the defaults of its variables', () => {
  const paths = { '/a': { get: ok } }
  const variables = { region: { default: 'eu' }, unused: { default: 'x' } }
  const servers = [{ url: '{scheme}://x.example' }, { url: 'https://{region}.api.example/', variables }, { url: '/b' }]
  const { report, baseUrl } = importOf(paths, { servers })
  assert.equal(baseUrl, 'https://eu.api.example')
  assert.deepEqual(report.warnings, [
    { path: '/servers', message: 'of 3 servers, https://eu.api.example is used' },
    { path: '/servers/1/variables', message: 'the defaults are used: region is "eu"' },
  ])
  assert.deepEqual(importOf(paths, { servers }, { baseUrl: 'https://mine.example' }).report.warnings, [])
})

for (const [document, reason] of [
  [{ swagger: '2.0', paths: {} }, 'Swagger 2.0 document; only OpenAPI 3.0 and 3.1'],
  [{ openapi: '3.2.0', paths: {} }, '"3.2.0"'],
  [{ openapi: '3.10.0' }, '"3.10.0"'],
  [{}, '"openapi" is missing'],
  ['openapi: 3.0.0', 'must be an object'],
  [[], 'must be an object'],
  [undefined, 'cannot be read'],
] as const) {
  test(`${JSON.stringify(document)?.slice(0, 30)} is refused as a whole`, () => {
    const said = codeOf(() => importOpenapi(document, { name: 'api' }))
    assert.ok(said.startsWith('INPUT_INVALID') && said.includes(reason), said)
  })
}

test('invalid options are refused with every failing path', () => {
  const options = {
    name: 'a b',
    baseUrl: 'ftp://x',
    tags: [],
    operations: ['a*b'],
    version: '1',
    effects: { GET: 'never' },
    tag: 1,
  }
  const said = codeOf(() => importOpenapi(documentOf({}), options as never))
  for (const path of [
    '/name',
    '/baseUrl',
    '/tags',
    '/operations',
    '/version',
    '/effects/GET',
    '/tag is not an option',
  ]) {
    assert.ok(said.includes(path), `${path} in ${said}`)
  }
  assert.match(said, /^CONFIG_INVALID/)
})
