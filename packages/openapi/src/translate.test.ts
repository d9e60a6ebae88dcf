import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compileSchema } from '@gantry/json-schema'
import { bodySchema, importOf, toolOf } from './openapi.fixture.ts'

const modern = { openapi: '3.1.0' }

for (const [what, given, expected] of [
  ['nullable', { type: 'string', nullable: true }, { type: ['string', 'null'] }],
  ['a nullable enum', { type: 'string', nullable: true, enum: ['a'] }, { type: ['string', 'null'], enum: ['a', null] }],
  ['nullable false', { type: 'string', nullable: false }, { type: 'string' }],
  [
    'nullable around other schemas',
    { nullable: true, description: 'd', anyOf: [{ type: 'string' }] },
    { description: 'd', anyOf: [{ anyOf: [{ type: 'string' }] }, { type: 'null' }] },
  ],
  [
    'an exclusive limit',
    { minimum: 1, exclusiveMinimum: true, maximum: 2, exclusiveMaximum: false },
    { maximum: 2, exclusiveMinimum: 1 },
  ],
  ['example', { type: 'string', example: 'x' }, { type: 'string', examples: ['x'] }],
  [
    'what JSON Schema has no word for',
    { type: 'string', xml: {}, externalDocs: {}, 'x-y': 1, format: 'email' },
    { type: 'string', format: 'email' },
  ],
  [
    'a discriminator',
    { oneOf: [{ type: 'object' }], discriminator: { propertyName: 'kind' } },
    { oneOf: [{ type: 'object' }], description: 'The member kind says which one it is.' },
  ],
  ['composition', { not: { anyOf: [{ type: 'string' }, {}] } }, { not: { anyOf: [{ type: 'string' }, {}] } }],
  ['what is no schema', { properties: { a: 'string' } }, { properties: { a: {} } }],
] as const) {
  test(`${what} of OpenAPI 3.0 is written as JSON Schema 2020-12`, () => assert.deepEqual(bodySchema(given), expected))
}

test('integers that lost digits are dropped from schemas, so that the output passes the strict JSON parser', () => {
  const huge = 2 ** 63
  const given = {
    type: 'integer',
    minimum: -huge,
    maximum: huge,
    multipleOf: 0.5,
    enum: [1, huge],
    default: huge,
    example: [huge],
  }
  assert.deepEqual(bodySchema(given), { type: 'integer', multipleOf: 0.5, enum: [1] })
  assert.deepEqual(bodySchema({ const: huge }, modern), {})
})

test('keywords next to a reference apply in 3.1 and are ignored in 3.0', () => {
  const components = { schemas: { Name: { type: 'string' } } }
  const given = { $ref: '#/components/schemas/Name', maxLength: 3 }
  assert.deepEqual(bodySchema(given, { components }), { $ref: '#/$defs/Name' })
  assert.deepEqual(bodySchema(given, { components, ...modern }), { $ref: '#/$defs/Name', maxLength: 3 })
})

test('3.1 keeps the keywords of 2020-12 and reads draft-07 where a schema or the document names it', () => {
  const tuple = { prefixItems: [{ type: 'string' }], items: false, contentMediaType: 'a/b' }
  assert.deepEqual(bodySchema(tuple, modern), tuple)
  const old = { items: [{ type: 'string' }], additionalItems: false, dependencies: { a: ['b'], c: { type: 'object' } } }
  const written = {
    prefixItems: [{ type: 'string' }],
    items: false,
    dependentRequired: { a: ['b'] },
    dependentSchemas: { c: { type: 'object' } },
  }
  const draft07 = 'http://json-schema.org/draft-07/schema#'
  assert.deepEqual(bodySchema({ $schema: draft07, ...old }, modern), written)
  assert.deepEqual(bodySchema(old, { ...modern, jsonSchemaDialect: draft07 }), written)
  const { report } = importOf({}, { ...modern, jsonSchemaDialect: 'https://example.com/own' })
  assert.match(report.warnings[0]?.message ?? '', /unknown dialect/)
})

test('read-only members are removed from requests and write-only members from responses, also from `required`', () => {
  const Pet = {
    type: 'object',
    required: ['id', 'name', 'key'],
    properties: {
      id: { type: 'integer', readOnly: true },
      name: { type: 'string' },
      key: { $ref: '#/components/schemas/Key' },
    },
  }
  const components = { schemas: { Pet, Key: { type: 'string', writeOnly: true } } }
  const schema = { $ref: '#/components/schemas/Pet' }
  const content = { 'application/json': { schema } }
  const operation = { requestBody: { required: true, content }, responses: { 200: { content } } }
  const { inputSchema, outputSchema } = toolOf('post', operation, { components })
  assert.deepEqual(Object.keys((inputSchema as { properties: object }).properties), ['name', 'key'])
  assert.deepEqual((inputSchema as { required: unknown }).required, ['name', 'key'])
  const { $defs } = outputSchema as { $defs: { Pet: { properties: object; required: unknown } } }
  assert.deepEqual(
    [Object.keys($defs.Pet.properties), $defs.Pet.required],
    [
      ['id', 'name'],
      ['id', 'name'],
    ],
  )
})

test('a member that is read-only in one part of allOf is required by no other part', () => {
  const components = { schemas: { Base: { type: 'object', properties: { id: { readOnly: true }, a: {} } } } }
  const given = { allOf: [{ $ref: '#/components/schemas/Base' }, { required: ['id', 'a'] }] }
  assert.deepEqual(bodySchema(given, { components }), { allOf: [{ $ref: '#/$defs/Base' }, { required: ['a'] }] })
})

test('a recursive schema is translated, with only the definitions in use', () => {
  const schemas = {
    Tree: {
      type: 'object',
      additionalProperties: true,
      properties: { left: { $ref: '#/components/schemas/Tree' }, size: { $ref: '#/components/schemas/Size' } },
    },
    Size: { type: 'integer' },
    Unused: { type: 'string' },
  }
  const requestBody = {
    required: true,
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Tree' } } },
  }
  const { inputSchema } = toolOf('post', { requestBody }, { components: { schemas } })
  assert.deepEqual(Object.keys((inputSchema as { $defs: object }).$defs), ['Tree', 'Size'])
  const { check } = compileSchema(inputSchema)
  assert.equal(check({ body: { left: { left: { size: 1 } } } }), true)
  assert.equal(check({ body: { left: { left: { size: 'x' } } } }), false)
})

test('references may point anywhere in the document, and definitions of the same name stay distinct', () => {
  const paths = {
    '/a': { get: { parameters: [{ name: 'q', in: 'query', schema: { type: 'string', maxLength: 1 } }] } },
    '/b': {
      get: {
        parameters: [
          { name: 'r', in: 'query', schema: { $ref: '#/paths/~1a/get/parameters/0/schema' } },
          { name: 's', in: 'query', schema: { $ref: '#/components/x%2Dmine/schema' } },
        ],
      },
    },
  }
  const { tools } = importOf(paths, { components: { 'x-mine': { schema: { type: 'integer' } } } })
  assert.deepEqual((tools[1]?.inputSchema as { $defs: unknown } | undefined)?.$defs, {
    schema: { type: 'string', maxLength: 1 },
    schema_2: { type: 'integer' },
  })
})

test('a keyword that the schema compiler refuses is dropped with a warning, and the tool is imported', () => {
  const schemas = { Code: { type: 'string', pattern: '((a{100}){100}){100}', minLength: 2 } }
  const wrong = {
    type: 'object',
    properties: { a: { type: 'strnig' }, b: { type: 'string', required: true }, c: { enum: 'x' } },
  }
  const schema = {
    type: 'object',
    additionalProperties: true,
    properties: { code: { $ref: '#/components/schemas/Code' }, wrong },
  }
  const requestBody = { required: true, content: { 'application/json': { schema } } }
  const { tools, report } = importOf({ '/x': { post: { requestBody } } }, { components: { schemas } })
  const { $defs, properties } = (tools[0] ?? assert.fail()).inputSchema as {
    $defs: unknown
    properties: { body: { properties: { wrong: { properties: unknown } } } }
  }
  assert.deepEqual($defs, { Code: { type: 'string', minLength: 2 } })
  assert.deepEqual(properties.body.properties.wrong.properties, { a: {}, b: { type: 'string' }, c: {} })
  const pattern = report.warnings.find(({ path }) => path === '/components/schemas/Code/pattern')
  assert.match(pattern?.message ?? '', /cannot be bounded.*pattern was dropped/)
  assert.equal(report.warnings.length, 4)
})

test('an operation whose input has an unresolvable reference is left out; an unresolvable output only loses its schema', () => {
  for (const [reference, reason] of [
    ['https://example.com/pet.json', 'only references inside the document'],
    ['other.yaml#/Pet', 'only references inside the document'],
    ['#/components/schemas/None', 'not in the document'],
    ['#anchor', 'only references inside the document'],
    ['#/%zz', 'not a JSON Pointer'],
  ] as const) {
    const schema = { $ref: reference }
    const content = { 'application/json': { schema } }
    const components = { schemas: { Deep: { type: 'object', additionalProperties: true, properties: { a: schema } } } }
    const deep = { 'application/json': { schema: { $ref: '#/components/schemas/Deep' } } }
    const paths = {
      '/in': { post: { requestBody: { content } } },
      '/deep': { post: { requestBody: { content: deep } } },
      '/out': { get: { responses: { 200: { content: deep } } } },
      '/parameter': { get: { parameters: [{ $ref: reference }] } },
      '/item': { $ref: reference },
    }
    const { tools, report } = importOf(paths, { components })
    assert.deepEqual([tools.map(({ name }) => name), tools[0]?.outputSchema], [['get_out'], undefined])
    assert.deepEqual(report.leftOut.map(({ operation }) => operation).sort(), [
      '* /item',
      'GET /parameter',
      'POST /deep',
      'POST /in',
    ])
    for (const left of report.leftOut) assert.ok(left.reason.includes(reason), left.reason)
  }
})
