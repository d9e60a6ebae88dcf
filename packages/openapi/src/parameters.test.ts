import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bindingOf, importOf, toolOf } from './openapi.fixture.ts'

const text = { schema: { type: 'string' } }

test('parameters of every location keep style, explode and name', () => {
  const parameters = [
    { name: 'id', in: 'path', required: true, style: 'matrix', explode: true, ...text },
    { name: 'q', in: 'query', style: 'form', explode: true, ...text },
    { name: 'list', in: 'query', style: 'pipeDelimited', ...text },
    {
      name: 'filter',
      in: 'query',
      style: 'deepObject',
      explode: true,
      allowReserved: true,
      schema: { type: 'object' },
    },
    { name: 'X-Trace', in: 'header', explode: true, ...text },
    { name: 'sid', in: 'cookie', explode: false, ...text },
    { name: 'where', in: 'query', content: { 'application/json': { schema: { type: 'object' } } } },
  ]
  const tool = toolOf('get', { parameters }, {}, '/x/{id}')
  assert.deepEqual(bindingOf(tool).params, {
    id: { in: 'path', name: 'id', style: 'matrix', explode: true },
    q: { in: 'query', name: 'q' },
    list: { in: 'query', name: 'list', style: 'pipeDelimited' },
    filter: { in: 'query', name: 'filter', style: 'deepObject', explode: true, allowReserved: true },
    'X-Trace': { in: 'header', name: 'X-Trace', explode: true },
    sid: { in: 'cookie', name: 'sid', explode: false },
    where: { in: 'query', name: 'where', json: true },
  })
  assert.deepEqual(tool.inputSchema, {
    type: 'object',
    properties: {
      id: { type: 'string' },
      q: { type: 'string' },
      list: { type: 'string' },
      filter: { type: 'object' },
      'X-Trace': { type: 'string' },
      sid: { type: 'string' },
      where: { type: 'object' },
    },
    required: ['id'],
    additionalProperties: false,
  })
})

test('parameters of the path item are merged with those of the operation, which take precedence', () => {
  const shared = [{ name: 'a', in: 'query', ...text }, { $ref: '#/components/parameters/B' }]
  const own = [{ name: 'a', in: 'query', required: true, schema: { type: 'integer' } }]
  const components = { parameters: { B: { name: 'b', in: 'query', description: 'Bees.', ...text } } }
  const { tools } = importOf({ '/x': { parameters: shared, get: { parameters: own } } }, { components })
  assert.deepEqual(tools[0]?.inputSchema, {
    type: 'object',
    properties: { a: { type: 'integer' }, b: { type: 'string', description: 'Bees.' } },
    required: ['a'],
    additionalProperties: false,
  })
})

test('a name in several locations is prefixed with its location, and the request keeps the name', () => {
  const parameters = [
    { name: 'id', in: 'path', required: true, ...text },
    { name: 'id', in: 'query', ...text },
    { name: 'name', in: 'header', ...text },
    { name: 'sort[by]', in: 'query', ...text },
    { name: 'sort_by', in: 'query', ...text },
  ]
  const schema = { type: 'object', properties: { name: { type: 'string' } } }
  const requestBody = { required: true, content: { 'application/json': { schema } } }
  const binding = bindingOf(toolOf('post', { parameters, requestBody }, {}, '/x/{id}'))
  assert.deepEqual(binding.params, {
    path_id: { in: 'path', name: 'id' },
    query_id: { in: 'query', name: 'id' },
    header_name: { in: 'header', name: 'name' },
    query_sort_by: { in: 'query', name: 'sort[by]' },
    query_sort_by_2: { in: 'query', name: 'sort_by' },
  })
  assert.equal(binding.path, '/x/{id}')
  assert.deepEqual(binding.body, { type: 'json' })
})

test('header parameters that the backend sets are ignored with a warning', () => {
  const parameters = ['Accept', 'content-type', 'Authorization', 'Host'].map((name) => ({
    name,
    in: 'header',
    ...text,
  }))
  const { tools, report } = importOf({ '/x': { get: { parameters } } })
  assert.equal(bindingOf(tools[0] ?? assert.fail()).params, undefined)
  assert.equal(report.warnings.length, 4)
})

test('a header that identifies the sender or frames the message never becomes an argument', () => {
  const names = ['Cookie', 'X-Forwarded-For', 'Forwarded', 'X-HTTP-Method-Override', 'X-Original-URL', 'X-Rewrite-URL']
  const others = ['Content-Encoding', 'Proxy-Authorization', 'Proxy-X', 'Transfer-Encoding', 'a b', ':path', 'a\r\nb']
  for (const name of [...names, ...others]) {
    const get = (required: boolean) => ({ get: { parameters: [{ name, in: 'header', required, ...text }] } })
    const { tools, report } = importOf({ '/optional': get(false), '/required': get(true) })
    assert.deepEqual([tools.length, bindingOf(tools[0] ?? assert.fail()).params], [1, undefined], name)
    assert.match(report.warnings[0]?.message ?? '', /is not for a parameter to set; it is ignored/)
    assert.deepEqual(
      report.leftOut.map(({ operation, reason }) => [operation, /not for a parameter.*it is required/s.test(reason)]),
      [['GET /required', true]],
      name,
    )
  }
})

test('an operation is imported although it requires a header that the backend writes', () => {
  const names = ['Authorization', 'Content-Type', 'Host', 'Content-Length', 'Idempotency-Key']
  const parameters = [...names, 'X-Trace'].map((name) => ({ name, in: 'header', required: true, ...text }))
  const { tools, report } = importOf({ '/x': { post: { parameters } } })
  assert.deepEqual(Object.keys(bindingOf(tools[0] ?? assert.fail()).params ?? {}), ['X-Trace'])
  assert.deepEqual([report.warnings.length, report.leftOut.length], [names.length, 0])
})

test('a path placeholder without a parameter is a string, and a path parameter without a placeholder is ignored', () => {
  const { tools, report } = importOf({ '/x/{id}': { get: { parameters: [{ name: 'other', in: 'path', ...text }] } } })
  assert.deepEqual(tools[0]?.inputSchema, {
    type: 'object',
    properties: { id: { type: 'string' } },
    required: ['id'],
    additionalProperties: false,
  })
  assert.equal(report.warnings.length, 2)
})

test('a style that is invalid for its location is replaced by the default, with a warning', () => {
  const { tools, report } = importOf({
    '/x': { get: { parameters: [{ name: 'q', in: 'query', style: 'matrix', ...text }] } },
  })
  assert.deepEqual(bindingOf(tools[0] ?? assert.fail()).params, { q: { in: 'query', name: 'q' } })
  assert.match(report.warnings[0]?.message ?? '', /not a style for the query/)
})

test('a query string in the path is sent with every call', () => {
  const binding = bindingOf(toolOf('get', {}, {}, '/x?beta=true&a=b%20c'))
  assert.deepEqual([binding.path, binding.query], ['/x', { beta: 'true', a: 'b c' }])
})

for (const path of ['/x#y', '/x/{id', '/x/../y', '/x?q={q}', '/x y']) {
  test(`the operation of the invalid path ${path} is left out`, () => {
    const { tools, report } = importOf({ [path]: { get: {} } })
    assert.deepEqual([tools.length, report.leftOut.length], [0, 1])
  })
}
