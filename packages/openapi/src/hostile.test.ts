import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { checkSchema } from '@gantry/json-schema'
import { importOpenapi } from './index.ts'
import { bindingOf, documentOf, importOf } from './openapi.fixture.ts'

function refusal(document: unknown): string {
  try {
    importOpenapi(document, { name: 'api' })
  } catch (error) {
    if (ToolError.is(error)) return `${error.code} ${error.message}`
    throw error
  }
  return assert.fail('nothing was thrown')
}

function bodyOf(schema: unknown, schemas: object = {}) {
  const requestBody = { required: true, content: { 'application/json': { schema } } }
  return importOf({ '/x': { post: { requestBody } } }, { components: { schemas } })
}

test('a __proto__ key changes no prototype, wherever it occurs', () => {
  const text = `{"openapi":"3.0.0","__proto__":{"polluted":1},"servers":[{"url":"https://x"}],"paths":{
    "__proto__":{"get":{}},
    "/x/{__proto__}":{"post":{
      "operationId":"__proto__","tags":["__proto__"],
      "parameters":[{"name":"__proto__","in":"path","schema":{"type":"string"}},{"name":"__proto__","in":"query","schema":{}}],
      "requestBody":{"required":true,"content":{"application/json":{"schema":{
        "type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"type":"string"}},"required":["__proto__"]}}}}}}}}`
  const { tools, report } = importOpenapi(JSON.parse(text), { name: 'api' })
  assert.equal(({} as { polluted?: unknown }).polluted, undefined)
  const [tool] = tools
  const { properties } = (tool ?? assert.fail()).inputSchema as { properties: object }
  assert.equal(Object.getPrototypeOf(properties), Object.prototype)
  assert.deepEqual(Object.keys(properties), ['constructor', 'path___proto', 'query___proto'])
  assert.equal(bindingOf(tool ?? assert.fail()).params?.path___proto?.name, '__proto__')
  assert.match(report.warnings[0]?.message ?? '', /3 keys named __proto__ were dropped/)
})

test('references that double at every step are never expanded', () => {
  const next = (level: number) => ({ $ref: `#/components/schemas/S${level + 1}` })
  const schemas = Object.fromEntries(
    Array.from({ length: 60 }, (_, level) => [
      `S${level}`,
      { allOf: [next(level), next(level)], properties: { a: next(level) } },
    ]),
  )
  const { tools } = bodyOf({ $ref: '#/components/schemas/S0' }, { ...schemas, S60: { type: 'object' } })
  assert.ok(JSON.stringify(tools).length < 20_000)
})

test('circular references of path items, parameters and schemas end', () => {
  const ring = { A: { $ref: '#/components/x/B' }, B: { $ref: '#/components/x/A' } }
  const paths = {
    '/item': { $ref: '#/components/x/A' },
    '/parameter': { get: { parameters: [{ $ref: '#/components/x/A' }] } },
  }
  const { report } = importOf(paths, { components: { x: ring } })
  assert.deepEqual(
    report.leftOut.map(({ reason }) => /circle/.test(reason)),
    [true, true],
  )
  const schemas = {
    A: { allOf: [{ $ref: '#/components/schemas/B' }] },
    B: { anyOf: [{ $ref: '#/components/schemas/A' }] },
  }
  const { tools, report: repaired } = bodyOf({ type: 'array', items: { $ref: '#/components/schemas/A' } }, schemas)
  assert.match(repaired.warnings[0]?.message ?? '', /comes back to itself/)
  checkSchema(tools[0]?.inputSchema ?? false)
})

test('a document with very many circular references is refused within a bounded number of repairs', () => {
  const schemas = Object.fromEntries(
    Array.from({ length: 100 }, (_, n) => [`S${n}`, { allOf: [{ $ref: `#/components/schemas/S${n}` }] }]),
  )
  const items = Object.keys(schemas).map((name) => ({ $ref: `#/components/schemas/${name}` }))
  const requestBody = {
    content: { 'application/json': { schema: { anyOf: items.map((item) => ({ type: 'array', items: item })) } } },
  }
  assert.match(
    refusal(documentOf({ '/x': { post: { requestBody } } }, { components: { schemas } })),
    /wrong in too many places/,
  )
})

test('an operation whose schema is nested too deeply is left out', () => {
  let schema: object = { type: 'string' }
  for (let level = 0; level < 60; level++) schema = { type: 'array', items: schema }
  assert.match(bodyOf(schema).report.leftOut[0]?.reason ?? '', /nested too deeply/)
  let deep: object = {}
  for (let level = 0; level < 5_000; level++) deep = { a: deep }
  assert.match(refusal({ ...documentOf({}), deep }), /^INPUT_INVALID .*nested deeper/)
})

test('a schema over the size limit loses its most distant definitions, with a warning', () => {
  const next = (n: number) => ({ $ref: `#/components/schemas/S${n + 1}` })
  const schemas = Object.fromEntries(
    Array.from({ length: 1_000 }, (_, n) => [
      `S${n}`,
      { type: 'object', description: 'd'.repeat(900), properties: { a: next(n) } },
    ]),
  )
  const all = { ...schemas, S1000: { type: 'object' } }
  const { tools, report } = bodyOf({ type: 'array', items: { $ref: '#/components/schemas/S0' } }, all)
  const size = JSON.stringify(tools[0]?.inputSchema).length
  assert.ok(size > 200_000 && size < 263_000, String(size))
  assert.match(report.warnings[0]?.message ?? '', /1 of its definitions allow anything/)
  checkSchema(tools[0]?.inputSchema ?? false)
})

test('an operation whose input schema alone is over the size limit is left out', () => {
  const members = Object.fromEntries(
    Array.from({ length: 6_000 }, (_, n) => [`member_${n}`, { type: 'string', maxLength: 9 }]),
  )
  const { report } = bodyOf({ type: 'object', properties: members })
  assert.match(report.leftOut[0]?.reason ?? '', /larger than/)
})

test('more operations than allowed are refused', () => {
  const paths = Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`/p${n}`, { get: {} }]))
  assert.match(
    (() => {
      try {
        return String(importOf(paths, {}, { maxOperations: 100 }))
      } catch (error) {
        return String(error)
      }
    })(),
    /more than 100 operations/,
  )
  assert.equal(importOf(paths, {}, { maxOperations: 101 }).tools.length, 101)
})

test('a getter of the document is read once, so a value that changes later has no effect', () => {
  let reads = 0
  const document = documentOf({ '/x': { get: {} } }) as { [key: string]: unknown }
  Object.defineProperty(document, 'servers', {
    enumerable: true,
    get: () => [{ url: ++reads === 1 ? 'https://good.example' : 'https://evil.example' }],
  })
  assert.equal(importOpenapi(document, { name: 'api' }).baseUrl, 'https://good.example')
  assert.equal(reads, 1)
})

test('a wrong value anywhere in the document throws only a ToolError or leaves the operation out', () => {
  const junk: readonly unknown[] = [
    null,
    true,
    7,
    '',
    'x',
    [],
    [null],
    {},
    { $ref: 7 },
    { $ref: '#' },
    { $ref: '#/paths' },
    [[]],
  ]
  const good = {
    operationId: 'x',
    summary: 's',
    tags: ['t'],
    servers: [{ url: 'https://api.example.com/v1' }],
    security: [],
    parameters: [{ name: 'q', in: 'query', schema: {}, examples: {}, content: undefined }],
    requestBody: {
      content: { 'multipart/form-data': { schema: { properties: { a: {} } }, encoding: {}, examples: {} } },
    },
    responses: { 200: { content: { 'application/json': { schema: {} } }, links: {} } },
    callbacks: {},
  }
  let imported = 0
  for (const wrong of junk) {
    for (const [path, value] of variants(good, wrong)) {
      const { tools, report } = importOf({ '/x': { post: value } })
      assert.equal(tools.length + report.leftOut.length, 1, path)
      imported += tools.length
    }
    for (const [, value] of variants(
      documentOf({ '/x': { get: {} } }, { components: {}, security: [], webhooks: {} }),
      wrong,
    )) {
      try {
        importOpenapi(value, { name: 'api' })
      } catch (error) {
        if (!ToolError.is(error)) throw error
      }
    }
  }
  assert.ok(imported > 100)
})

/** Copies of a value, each with one of its parts replaced. */
function* variants(value: unknown, wrong: unknown, path = ''): Generator<readonly [string, unknown]> {
  if (typeof value !== 'object' || value === null) return
  for (const [key, part] of Object.entries(value)) {
    const replaced = (other: unknown) =>
      Array.isArray(value) ? value.with(Number(key), other) : { ...value, [key]: other }
    yield [`${path}/${key}`, replaced(wrong)]
    for (const [at, inner] of variants(part, wrong, `${path}/${key}`)) yield [at, replaced(inner)]
  }
}

test('tools that share very many definitions are left out at the total size limit', () => {
  const references = Array.from({ length: 4_000 }, (_, n) => ({ $ref: `#/components/schemas/S${n}` }))
  const schemas = Object.fromEntries(references.map((_, n) => [`S${n}`, { type: 'string', maxLength: n }]))
  const all = { ...schemas, All: { anyOf: references } }
  const requestBody = { content: { 'application/json': { schema: { $ref: '#/components/schemas/All' } } } }
  const paths = Object.fromEntries(Array.from({ length: 2_000 }, (_, n) => [`/p${n}`, { post: { requestBody } }]))
  const { tools, report } = importOf(paths, { components: { schemas: all } })
  assert.deepEqual([tools.length > 10, tools.length + report.leftOut.length], [true, 2_000])
  assert.match(report.leftOut[0]?.reason ?? '', /would make more than 48 MiB of tools|refers to large parts/)
})

test('a body shared by operations is translated once, and the tools share its schema', () => {
  const schemas = { B: { type: 'object', properties: { a: { type: 'string', pattern: '(' }, b: { enum: [1, 2] } } } }
  const post = {
    requestBody: { required: true, content: { 'application/json': { schema: { $ref: '#/components/schemas/B' } } } },
  }
  const { tools, report } = importOf({ '/x': { post }, '/y': { post } }, { components: { schemas } })
  const [x, y] = tools.map(({ inputSchema }) => (inputSchema as { properties: { a: object; b: object } }).properties)
  assert.deepEqual(x, { a: { type: 'string' }, b: { enum: [1, 2] } })
  assert.equal(x?.b, y?.b)
  assert.deepEqual(
    report.warnings.map(({ path }) => path),
    ['/components/schemas/B/properties/a/pattern'],
  )
})

test('a small document with repeated references cannot create unlimited large tools', () => {
  const members = Object.fromEntries(Array.from({ length: 3_000 }, (_, n) => [`p${n}`, { type: 'string' }]))
  const body = { content: { 'application/json': { schema: { type: 'object', properties: members } } } }
  const parameters = Array.from({ length: 900 }, (_, n) => ({ name: `q${n}`, in: 'query', schema: { maximum: n } }))
  const many = (item: object) => Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`/p${n}`, item]))
  const repeated = {
    body: many({ post: { requestBody: { $ref: '#/components/requestBodies/B' } } }),
    pathItem: many({ $ref: '#/components/pathItems/P' }),
  }
  for (const [name, paths] of Object.entries(repeated)) {
    const components = { requestBodies: { B: body }, pathItems: { P: { get: { parameters } } } }
    const { tools, report } = importOf(paths, { components })
    assert.ok(tools.length > 10 && tools.length < 500, `${name} ${tools.length}`)
    assert.equal(tools.length + report.leftOut.length, 1_000)
    assert.match(report.leftOut.at(-1)?.reason ?? '', /refers to large parts of itself too often/)
  }
})

test('similar input schemas that are not shared count against the total size limit', () => {
  const input = (own: number) =>
    Array.from({ length: 900 }, (_, n) => ({ name: `q${own}_${n}`, in: 'query', description: 'd'.repeat(150) }))
  const paths = Object.fromEntries(Array.from({ length: 80 }, (_, n) => [`/p${n}`, { get: { parameters: input(n) } }]))
  const { tools, report } = importOf(paths)
  assert.deepEqual([tools.length > 40, tools.length + report.leftOut.length], [true, 80])
  assert.match(report.leftOut[0]?.reason ?? '', /would make more than 48 MiB of tools/)
})

test('nested definitions cannot multiply the size of the document', () => {
  let schema: object = {
    properties: Object.fromEntries(Array.from({ length: 9_000 }, (_, n) => [`p${n}`, { type: 'string' }])),
  }
  for (let level = 0; level < 26; level++) schema = { properties: { a: schema } }
  const anyOf = Array.from({ length: 27 }, (_, level) => ({
    $ref: `#/components/schemas/N${'/properties/a'.repeat(level)}`,
  }))
  assert.match(bodyOf({ anyOf }, { N: schema }).report.leftOut[0]?.reason ?? '', /refers to large parts of itself/)
  assert.deepEqual(bodyOf({ anyOf: anyOf.slice(0, 3) }, { N: schema }).report.leftOut, [])
})

test('long names are truncated in the report', () => {
  const long = 'x'.repeat(100_000)
  const schema = { [long]: 1, properties: { [long]: { pattern: '(' } }, additionalProperties: true }
  const parameters = Array.from({ length: 900 }, (_, n) => ({ name: `${'?'.repeat(n + 1)}`, in: 'query', schema: {} }))
  const post = { requestBody: { content: { 'application/json': { schema } } } }
  const { report, tools } = importOf({ '/x': { get: { parameters }, post }, [`/${long}`]: { get: {} } })
  assert.equal(Object.keys(bindingOf(tools[0] ?? assert.fail()).params ?? {}).length, 900)
  assert.deepEqual([tools.length, report.leftOut.length], [1, 2])
  for (const { operation, reason } of report.leftOut) assert.ok(operation.length + reason.length < 1_000)
})
