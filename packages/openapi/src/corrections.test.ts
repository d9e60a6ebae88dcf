import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { importOpenapi } from './index.ts'
import { bindingOf, documentOf, importOf, toolOf } from './openapi.fixture.ts'

/** What outside tests with published documents found. */

const components = {
  securitySchemes: {
    header: { type: 'apiKey', in: 'header', name: 'X-Api-Key' },
    query: { type: 'apiKey', in: 'query', name: 'api_key' },
    cookie: { type: 'apiKey', in: 'cookie', name: 'sid' },
    bearer: { type: 'http', scheme: 'bearer' },
    oauth: { type: 'oauth2', flows: {} },
  },
}
const text = { type: 'string' }

test('a required parameter that carries the API key is not an argument, because the backend sends it', () => {
  for (const [scheme, where, name] of [
    ['header', 'header', 'x-api-key'],
    ['query', 'query', 'api_key'],
    ['cookie', 'cookie', 'sid'],
  ]) {
    const parameters = [{ name, in: where, required: true, schema: text }]
    for (const rest of [{ security: [{ [String(scheme)]: [] }] }, {}]) {
      const own = 'security' in rest ? {} : { security: [{ [String(scheme)]: [] }] }
      const tool = toolOf('get', { parameters, ...own }, { components, ...rest })
      assert.deepEqual((tool.inputSchema as { properties: object }).properties, {}, scheme)
    }
  }
})

test('a parameter with the name of the API key in another location stays an argument', () => {
  const parameters = [{ name: 'api_key', in: 'query', required: true, schema: text }]
  const tool = toolOf('get', { parameters }, { components, security: [{ header: [] }] })
  assert.deepEqual(Object.keys((tool.inputSchema as { properties: object }).properties), ['api_key'])
})

test('the first of two schemes that write Authorization in one requirement is sent', () => {
  const made = importOf({ '/x': { get: {} } }, { components, security: [{ bearer: [], oauth: [], header: [] }] })
  assert.deepEqual(made.backend.auth, [
    { type: 'bearer', token: 'secret:api_bearer' },
    { type: 'header', name: 'X-Api-Key', value: 'secret:api_header' },
  ])
  assert.deepEqual(
    made.report.secrets.map(({ name }) => name),
    ['api_bearer', 'api_header'],
  )
  const [warning] = made.report.warnings.filter(({ message }) => message.includes('Authorization'))
  assert.match(warning?.message ?? '', /^bearer with oauth all write/)
})

test('an operation with a required Accept-Encoding header is imported, because the backend sends the header', () => {
  const parameters = [{ name: 'Accept-Encoding', in: 'header', required: true, schema: text }]
  assert.deepEqual((toolOf('get', { parameters }).inputSchema as { properties: object }).properties, {})
})

test('a form body that is a string is sent as text, and an operation that requires a list as form body is left out', () => {
  const body = (type: string, media: string, required = true) => ({
    requestBody: { required, content: { [media]: { schema: { type, ...(type === 'array' ? { items: text } : {}) } } } },
  })
  const form = 'application/x-www-form-urlencoded'
  const tool = toolOf('post', body('string', form))
  assert.deepEqual(bindingOf(tool).body, { type: 'text', mediaType: form, arg: 'body' })
  for (const [type, media, reason] of [
    ['array', form, /a form body that is a list cannot be written/],
    ['array', 'multipart/form-data', /a multipart body that is a list or a text cannot be written/],
    ['string', 'multipart/form-data', /a multipart body that is a list or a text cannot be written/],
  ] as const) {
    const { report } = importOf({ '/x': { post: body(type, media) } })
    assert.match(report.leftOut[0]?.reason ?? '', reason)
    const optional = importOf({ '/x': { post: body(type, media, false) } })
    assert.equal(optional.tools.length, 1)
    assert.match(optional.report.warnings[0]?.message ?? '', /it is ignored/)
  }
})

test('the types of a form body are found behind references, type lists and combined schemas', () => {
  const form = 'application/x-www-form-urlencoded'
  const multipart = 'multipart/form-data'
  const schemas = {
    S: text,
    A: { type: 'array', items: text },
    Loop: { allOf: [{ $ref: '#/components/schemas/Loop' }, { type: 'integer' }] },
  }
  const of = (media: string, schema: unknown) =>
    importOf(
      { '/x': { post: { requestBody: { required: true, content: { [media]: { schema } } } } } },
      { openapi: '3.1.0', components: { schemas } },
    )
  const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` })
  const texts = [
    { type: ['string', 'null'] },
    { allOf: [text] },
    { allOf: [ref('S')] },
    { type: 'integer' },
    { oneOf: [text, { type: 'number' }] },
    { enum: ['a', 'b'] },
    ref('Loop'),
    { anyOf: [text, ref('A')] },
  ]
  for (const schema of texts) {
    const { tools, report } = of(form, schema)
    assert.deepEqual(report.leftOut, [], JSON.stringify(schema))
    const tool = tools[0] ?? assert.fail(JSON.stringify(schema))
    assert.deepEqual(bindingOf(tool).body, { type: 'text', mediaType: form, arg: 'body' })
    assert.equal((tool.inputSchema as { properties: { body: { type: string } } }).properties.body.type, 'string')
  }
  const objects = [{}, { oneOf: [text, { type: 'object', properties: { a: text } }] }, { type: ['array', 'object'] }]
  for (const media of [form, multipart]) {
    for (const schema of objects) {
      const tool = of(media, schema).tools[0] ?? assert.fail(JSON.stringify(schema))
      assert.equal(bindingOf(tool).body?.arg, 'body')
      assert.equal((tool.inputSchema as { properties: { body: { type: string } } }).properties.body.type, 'object')
    }
    for (const schema of [{ allOf: [ref('A')] }, { type: ['array', 'null'] }]) {
      assert.match(of(media, schema).report.leftOut[0]?.reason ?? '', /cannot be written/)
    }
  }
  for (const schema of texts) assert.match(of(multipart, schema).report.leftOut[0]?.reason ?? '', /cannot be written/)
})

test('an optional body of DELETE is dropped with a warning, and a required one is sent', () => {
  const content = { 'application/json': { schema: { type: 'object', properties: { a: text } } } }
  const { tools, report } = importOf({ '/x': { delete: { requestBody: { content } } } })
  assert.equal(tools.length, 1)
  assert.match(report.warnings[0]?.message ?? '', /optional body is not sent with DELETE/)
  const sent = toolOf('delete', { requestBody: { required: true, content } })
  assert.deepEqual(bindingOf(sent).body, { type: 'json' })
})

test('an operation with its own server is imported when that origin is allowed, and otherwise left out with the option that allows it', () => {
  const own = { servers: [{ url: 'https://uploads.example.com/api' }] }
  const { report } = importOf({ '/x': { post: own } })
  assert.match(report.leftOut[0]?.reason ?? '', /uploads\.example\.com.*--origin/)
  const origins = ['https://uploads.example.com']
  const made = importOf({ '/x': { post: own }, '/y': { get: {} } }, {}, { origins })
  assert.deepEqual(made.backend.origins, origins)
  assert.equal(bindingOf(made.tools[0] ?? assert.fail()).baseUrl, 'https://uploads.example.com/api')
  assert.equal(bindingOf(made.tools[1] ?? assert.fail()).baseUrl, undefined)
  const near = importOf({ '/x': { get: { servers: [{ url: 'https://api.example.com/other' }] } } })
  assert.equal(bindingOf(near.tools[0] ?? assert.fail()).baseUrl, 'https://api.example.com/other')
  const relative = importOf({ '/x': { get: { servers: [{ url: '/uploads' }] } } })
  assert.equal(bindingOf(relative.tools[0] ?? assert.fail()).baseUrl, 'https://api.example.com/uploads')
  const elsewhere = importOf({ '/x': { get: { servers: [{ url: '//uploads.example.com' }] } } })
  assert.match(elsewhere.report.leftOut[0]?.reason ?? '', /uploads\.example\.com.*--origin/)
  assert.throws(() => importOf({}, {}, { origins: ['https://a.example/path'] }), { code: 'CONFIG_INVALID' })
})

test('a path with # is left out with the reason', () => {
  assert.match(importOf({ '/a#b': { get: {} } }).report.leftOut[0]?.reason ?? '', /holds #/)
})

test('a document without a server is refused with the option that sets one', () => {
  const { servers, ...document } = documentOf({ '/x': { get: {} } })
  assert.ok(servers)
  assert.throws(
    () => importOpenapi(document, { name: 'api' }),
    (error) => ToolError.is(error) && /--base-url/.test(error.message),
  )
})

test('a document of 100 MiB is imported', () => {
  const info = { title: 'T', version: '1.0.0', description: 'x'.repeat(100 * 1_048_576) }
  assert.equal(importOf({ '/x': { get: {} } }, { info }).tools.length, 1)
})
