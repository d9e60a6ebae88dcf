import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testAdapter } from '@gantry/conformance/internal/adapter'
import { entryOf, resultOf } from '@gantry/conformance/internal/adapter-samples'
import { anthropic } from './anthropic.ts'

testAdapter('anthropic', {
  create: (options) => anthropic(options),
  names: (tools) => tools.map((tool) => tool.name),
  message: (calls) => ({
    role: 'assistant',
    stop_reason: 'tool_use',
    content: [
      { type: 'text', text: 'Let me see.' },
      ...calls.map(({ id, name, args }) => ({ type: 'tool_use', id, name, input: args })),
    ],
  }),
  readResult: ({ tool_use_id, content, is_error }) => ({
    id: tool_use_id,
    isError: is_error === true,
    text: content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n'),
    images: content.filter(({ type }) => type === 'image').length,
  }),
  argsAreText: false,
  hasIds: true,
  holdsImages: true,
})

test('the example turn of the API documentation is translated both ways', () => {
  const adapter = anthropic()
  const inputSchema = { type: 'object', properties: { location: { type: 'string' } }, required: ['location'] }
  const entry = entryOf({ namespace: 'weather', name: 'get', description: 'The weather.', inputSchema })
  const { tools, names, warnings } = adapter.tools([entry])
  assert.deepEqual(tools, [{ name: 'weather__get', description: 'The weather.', input_schema: inputSchema }])
  assert.deepEqual(warnings, [])
  const block = {
    type: 'tool_use',
    id: 'toolu_01A09q90qw90lq917835lq9',
    name: 'weather__get',
    input: { location: 'SF' },
  }
  const [call] = adapter.calls({ content: [block] }, names)
  assert.ok(call?.ok)
  assert.deepEqual(adapter.result(call, resultOf({ output: '15 degrees' })), {
    type: 'tool_result',
    tool_use_id: 'toolu_01A09q90qw90lq917835lq9',
    content: [{ type: 'text', text: '15 degrees' }],
  })
})

test('an image type that the API refuses is described as text', () => {
  const call = { ok: true, callId: 'c', name: 'n', tool: 't', args: {}, schemaDigest: '' } as const
  const svg = { type: 'image', data: 'aGk=', mimeType: 'image/svg+xml' } as const
  const { content } = anthropic().result(call, resultOf({ content: [svg] }))
  assert.deepEqual(content, [{ type: 'text', text: '[image image/svg+xml, about 3 bytes, not shown here]' }])
})

test('an argument whose name the API may refuse is kept, with a warning', () => {
  const inputSchema = { type: 'object', properties: { 'größe in cm': { type: 'number' } } }
  const { tools, warnings } = anthropic().tools([entryOf({ inputSchema })])
  assert.deepEqual(tools[0]?.input_schema, inputSchema)
  assert.deepEqual(
    warnings.map(({ done, keyword }) => [done, keyword]),
    [['kept', 'name']],
  )
})
