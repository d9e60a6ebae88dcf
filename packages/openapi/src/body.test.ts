import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bindingOf, importOf, toolOf } from './openapi.fixture.ts'

const object = { type: 'object', required: ['a'], properties: { a: { type: 'string' }, b: { type: 'integer' } } }

function post(content: object, rest: object = {}, document: { [key: string]: unknown } = {}) {
  const tool = toolOf('post', { requestBody: { required: true, content, ...rest } }, document)
  const { properties, required } = tool.inputSchema as { properties: { [name: string]: unknown }; required?: string[] }
  return { tool, body: bindingOf(tool).body, properties, required }
}

test('each member of an object body is an argument', () => {
  const components = { schemas: { Thing: object } }
  const schema = { $ref: '#/components/schemas/Thing' }
  const { body, properties, required } = post({ 'application/json': { schema } }, {}, { components })
  assert.deepEqual(body, { type: 'json' })
  assert.deepEqual(properties, { a: { type: 'string' }, b: { type: 'integer' } })
  assert.deepEqual(required, ['a'])
})

for (const [why, schema, rest] of [
  ['accepts additional members', { ...object, additionalProperties: true }, {}],
  ['is composed of other schemas', { allOf: [object] }, {}],
  ['constrains its members together', { ...object, minProperties: 1 }, {}],
  ['may be null', { ...object, nullable: true }, {}],
  ['is a list', { type: 'array', items: object }, {}],
  ['names no members', { type: 'object' }, {}],
  ['has required members but is optional', object, { required: false }],
] as const) {
  test(`a body that ${why} is one argument`, () => {
    const { body, properties, required } = post({ 'application/json': { schema } }, rest)
    assert.deepEqual(body, { type: 'json', arg: 'body' })
    assert.deepEqual(Object.keys(properties), ['body'])
    assert.deepEqual(required, 'required' in rest ? undefined : ['body'])
  })
}

test('JSON is preferred, then forms, multipart, text and bytes', () => {
  const media = { schema: object }
  const order = [
    ['application/json', 'json'],
    ['application/x-www-form-urlencoded', 'form'],
    ['multipart/form-data', 'multipart'],
    ['text/plain', 'text'],
    ['image/png', 'binary'],
  ] as const
  for (const [index, [, type]] of order.entries()) {
    const left = order.slice(index).toReversed()
    assert.equal(post(Object.fromEntries(left.map(([name]) => [name, media]))).body?.type, type)
  }
  assert.deepEqual(post({ 'application/vnd.x+json': media, 'application/json': media }).body, { type: 'json' })
})

test('a media type other than the default of its kind is sent as in the document', () => {
  assert.deepEqual(post({ 'application/vnd.x+json; v=2': { schema: object } }).body, {
    type: 'json',
    mediaType: 'application/vnd.x+json; v=2',
  })
  assert.deepEqual(post({ 'application/xml': { schema: object } }).body, {
    type: 'text',
    mediaType: 'application/xml',
    arg: 'body',
  })
})

test('a body of bytes is one argument in base64, and a body of text one string', () => {
  const bytes = post({ 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } })
  assert.deepEqual(bytes.body, { type: 'binary', arg: 'body' })
  assert.equal((bytes.properties.body as { contentEncoding: string }).contentEncoding, 'base64')
  const text = post({ 'text/plain': {} })
  assert.deepEqual([text.body, text.properties.body], [{ type: 'text', arg: 'body' }, { type: 'string' }])
})

test('files of a multipart body are base64 and listed, as 3.0 and 3.1 write them', () => {
  const schema = {
    type: 'object',
    properties: {
      note: { type: 'string' },
      old: { type: 'string', format: 'binary', description: 'A picture.' },
      list: { type: 'array', items: { type: 'string', format: 'binary' } },
      modern: { contentMediaType: 'image/png' },
      text: { type: 'string', contentMediaType: 'image/png', contentEncoding: 'base64' },
    },
  }
  const { body, properties } = post({ 'multipart/form-data': { schema } })
  assert.deepEqual(body, { type: 'multipart', files: ['old', 'list', 'modern'] })
  assert.deepEqual(properties.old, {
    type: 'string',
    contentEncoding: 'base64',
    description: 'A picture. (a file, as base64)',
  })
  assert.equal((properties.list as { items: { contentEncoding: string } }).items.contentEncoding, 'base64')
  const kept = post({ 'multipart/form-data': { schema: { ...schema, minProperties: 1 } } })
  assert.deepEqual(kept.body, { type: 'multipart', files: ['old', 'list', 'modern'], arg: 'body' })
})

test('GET sends no body: an optional body is ignored, and an operation that requires one is left out', () => {
  const requestBody = { content: { 'application/json': { schema: object } } }
  const optional = importOf({ '/x': { get: { requestBody } } })
  assert.equal(bindingOf(optional.tools[0] ?? assert.fail()).body, undefined)
  assert.equal(optional.report.warnings.length, 1)
  const needed = importOf({ '/x': { get: { requestBody: { ...requestBody, required: true } } } })
  assert.match(needed.report.leftOut[0]?.reason ?? '', /needs a body/)
  assert.deepEqual(post({ 'application/json': { schema: object } }).body, { type: 'json' })
})

test('the encoding of form members is kept, and that of multipart members is dropped with a warning', () => {
  const encoding = { b: { style: 'deepObject', explode: true }, c: { contentType: 'text/plain' } }
  const { body } = post({ 'application/x-www-form-urlencoded': { schema: object, encoding } })
  assert.deepEqual(body?.encoding, { b: { style: 'deepObject', explode: true } })
  const content = { 'multipart/form-data': { schema: object, encoding } }
  const { report } = importOf({ '/x': { post: { requestBody: { required: true, content } } } })
  assert.match(report.warnings[0]?.message ?? '', /the encoding of b is not kept/)
})

test('the output schema is that of successful JSON responses, or of the default response when there are none', () => {
  const json = (schema: object) => ({ description: '', content: { 'application/json': { schema } } })
  const output = (responses: object) => toolOf('get', { responses }).outputSchema
  const [a, b] = [{ type: 'string' }, { type: 'integer' }]
  assert.deepEqual(output({ 200: json(a), 404: json(b), default: json(b) }), a)
  assert.deepEqual(output({ default: json(b) }), b)
  assert.deepEqual(output({ 200: json(a), 201: json(a), '2XX': json(b) }), { anyOf: [a, b] })
  assert.deepEqual(output({ 200: json(a), 204: { description: '' } }), { anyOf: [a, { type: 'null' }] })
  assert.equal(output({ 204: { description: '' } }), undefined)
  assert.equal(output({ 200: json(a), 202: { content: { 'text/csv': {} } } }), undefined)
  const vendor = toolOf('get', { responses: { 200: { content: { 'application/vnd.x+json': { schema: a } } } } })
  assert.deepEqual(bindingOf(vendor).headers, { Accept: 'application/vnd.x+json' })
})
