import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testAdapter } from '@gantry/conformance/internal/adapter'
import { entryOf, resultOf } from '@gantry/conformance/internal/adapter-samples'
import type { Content } from '@gantry/contract'
import { CallToolResultSchema, ToolSchema } from '@modelcontextprotocol/core'
import type { AdapterCall } from './adapter.ts'
import { mcp } from './mcp.ts'

for (const revision of ['2025-11-25', '2026-07-28'] as const) {
  testAdapter(`mcp ${revision}`, {
    create: (options) => mcp({ ...options, revision }),
    names: (tools) => tools.map((tool) => tool.name),
    message: ([call]) => ({ name: call?.name, arguments: call?.args }),
    readResult: ({ content, isError }) => ({
      isError: isError === true,
      text: content.map(inText).join('\n'),
      images: content.filter(({ type }) => type === 'image').length,
    }),
    argsAreText: false,
    oneCall: true,
    hasIds: false,
    holdsImages: true,
  })
}

function inText(part: Content): string {
  if (part.type === 'text') return part.text
  if (part.type === 'resource') return String(part.resource?.text)
  return part.type === 'resource_link' ? part.uri : ''
}

const call: AdapterCall = { ok: true, name: 'n', tool: 't', args: {}, schemaDigest: '' }

test('tools and results pass the schemas of the MCP SDK', () => {
  const entry = entryOf({
    title: 'Add',
    outputSchema: { type: 'object', properties: { sum: { type: 'number' } } },
    annotations: { readOnlyHint: true },
    icons: [{ src: 'https://example.com/a.png', mimeType: 'image/png' }],
  })
  const { tools, warnings } = mcp().tools([entry])
  assert.deepEqual(ToolSchema.parse(tools[0]), tools[0])
  assert.deepEqual(warnings, [])
  const content: Content[] = [
    { type: 'text', text: 'three' },
    { type: 'image', data: 'aGk=', mimeType: 'image/png' },
    { type: 'audio', data: 'aGk=', mimeType: 'audio/wav' },
    { type: 'resource', resource: { uri: 'file:///a', text: 'a' } },
    { type: 'resource_link', uri: 'file:///b', name: 'b' },
  ]
  const result = mcp().result(call, resultOf({ output: { sum: 3 }, content }))
  assert.deepEqual(result, { content, structuredContent: { sum: 3 } })
  assert.deepEqual(CallToolResultSchema.parse(result), result)
})

test('structured output that is not an object is sent in revision 2026-07-28 only', () => {
  const entry = entryOf({ outputSchema: { type: 'array', items: { type: 'number' } } })
  const old = mcp({ revision: '2025-11-25' })
  const now = mcp({ revision: '2026-07-28' })
  assert.equal(old.tools([entry]).tools[0]?.outputSchema, undefined)
  assert.deepEqual(
    old.tools([entry]).warnings.map(({ path, done }) => [path, done]),
    [['/outputSchema', 'dropped']],
  )
  assert.deepEqual(now.tools([entry]).tools[0]?.outputSchema, { type: 'array', items: { type: 'number' } })
  const result = resultOf({ output: [1, 2] })
  assert.deepEqual(old.result(call, result), { content: [{ type: 'text', text: '[1,2]' }] })
  assert.deepEqual(now.result(call, result), { content: [{ type: 'text', text: '[1,2]' }], structuredContent: [1, 2] })
})

test('a tools/call request is read as a call with its id, and another method is refused', () => {
  const adapter = mcp()
  const { names } = adapter.tools([entryOf()])
  const request = { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'math__add', arguments: { a: 1 } } }
  const [read] = adapter.calls(request, names)
  assert.ok(read?.ok && read.callId === '7')
  assert.throws(() => adapter.calls({ ...request, method: 'tools/list' }, names), /not a tools\/call request/)
})

test('unsupported members of a foreign tool are named in warnings', () => {
  const tool = { name: 'x', inputSchema: { type: 'object' }, execution: { taskSupport: 'optional' }, _meta: { a: 1 } }
  const { tools, warnings } = mcp().read({ tools: [tool] }, { namespace: 'far' })
  assert.deepEqual(tools, [
    { namespace: 'far', name: 'x', version: '1.0.0', description: 'x', inputSchema: { type: 'object' } },
  ])
  assert.deepEqual(
    warnings.map(({ path }) => path),
    ['/execution', '/_meta'],
  )
})

test('a boolean schema is written as an equivalent object, because clients of SDK 1.x reject the whole list otherwise', () => {
  const schema = { type: 'object', properties: { any: true, none: false, list: { items: true } } } as const
  const entry = entryOf({
    inputSchema: { ...schema, additionalProperties: false, $defs: { a: { anyOf: [true, { not: true }] } } },
    outputSchema: { $schema: 'https://json-schema.org/draft/2020-12/schema', ...schema },
  })
  const [tool] = mcp().tools([entry]).tools
  const properties = { any: {}, none: { not: {} }, list: { items: {} } }
  assert.deepEqual(tool?.inputSchema, {
    ...{ type: 'object', properties, additionalProperties: false, $defs: { a: { anyOf: [{}, { not: {} }] } } },
  })
  assert.deepEqual(tool?.outputSchema, { type: 'object', properties })
})

test('an output schema that makes validators of earlier clients throw is left out with a warning', () => {
  const entry = entryOf({ outputSchema: { $id: 'https://example.com/a', type: 'object' } })
  const old = mcp({ revision: '2025-11-25' }).tools([entry])
  assert.equal(old.tools[0]?.outputSchema, undefined)
  assert.deepEqual(
    old.warnings.map(({ path, done }) => [path, done]),
    [['/outputSchema', 'dropped']],
  )
  assert.notEqual(mcp({ revision: '2026-07-28' }).tools([entry]).tools[0]?.outputSchema, undefined)
})
