import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testAdapter } from '@gantry/conformance/internal/adapter'
import { at, entryOf, keywordsOf, resultOf } from '@gantry/conformance/internal/adapter-samples'
import fc from 'fast-check'
import type OpenAI from 'openai'
import { type OpenAiChatResult, type OpenAiChatTool, openaiChat } from './openai-chat.ts'

for (const strict of [false, true]) {
  testAdapter(strict ? 'openai chat, strict' : 'openai chat', {
    create: (options) => openaiChat({ ...options, strict }),
    names: (tools) => tools.map((tool) => tool.function.name),
    message: (calls) => ({
      role: 'assistant',
      content: null,
      tool_calls: calls.map(({ id, name, args }) => ({ id, type: 'function', function: { name, arguments: args } })),
    }),
    readResult: ({ tool_call_id, content }: OpenAiChatResult) => ({ id: tool_call_id, text: content, images: 0 }),
    argsAreText: true,
    hasIds: true,
    holdsImages: false,
  })
}

test('tools and results satisfy the types of the openai package', () => {
  const adapter = openaiChat()
  const { tools, names } = adapter.tools([entryOf()])
  const request: Pick<OpenAI.ChatCompletionCreateParams, 'tools'> = { tools }
  const answer: OpenAI.ChatCompletionMessage = {
    role: 'assistant',
    content: null,
    refusal: null,
    tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'math__add', arguments: '{"a":1}' } }],
  }
  const [call] = adapter.calls(answer, names)
  assert.ok(call?.ok)
  const reply: OpenAI.ChatCompletionToolMessageParam = adapter.result(call, resultOf({ output: 1 }))
  assert.deepEqual(reply, { role: 'tool', tool_call_id: 'call_1', content: '1' })
  assert.equal(request.tools?.length, 1)
})

function strictTool(inputSchema: object): OpenAiChatTool['function'] {
  const [tool] = openaiChat({ strict: true }).tools([entryOf({ inputSchema: { ...inputSchema } })]).tools
  assert.ok(tool !== undefined)
  return tool.function
}

test('strict mode closes objects, requires every member and makes optional members nullable', () => {
  const written = strictTool({
    type: 'object',
    properties: {
      city: { type: 'string' },
      unit: { enum: ['c', 'f'] },
      days: { type: 'integer', minimum: 1 },
      at: { type: 'object', properties: { lat: { type: 'number' } } },
    },
    required: ['city'],
  })
  assert.equal(written.strict, true)
  assert.deepEqual(written.parameters, {
    type: 'object',
    properties: {
      city: { type: 'string' },
      unit: { anyOf: [{ enum: ['c', 'f'] }, { type: 'null' }] },
      days: { type: ['integer', 'null'], minimum: 1 },
      at: {
        type: ['object', 'null'],
        properties: { lat: { type: ['number', 'null'] } },
        required: ['lat'],
        additionalProperties: false,
      },
    },
    required: ['city', 'unit', 'days', 'at'],
    additionalProperties: false,
  })
})

test('a schema that strict mode would narrow is sent without it, with a warning that names the path', () => {
  const open = [
    { type: 'object', additionalProperties: { type: 'string' } },
    { type: 'object', properties: { any: {} } },
    { type: 'object', properties: { map: { type: 'object' } } },
    { type: 'object', properties: { a: { allOf: [{ type: 'string' }] } } },
    { type: 'object', properties: { a: { type: 'string' } }, required: ['b'] },
    { type: 'object', anyOf: [{ required: ['a'] }], properties: { a: { type: 'string' } } },
  ]
  for (const inputSchema of open) {
    const { tools, warnings } = openaiChat({ strict: true }).tools([entryOf({ inputSchema })])
    assert.equal(tools[0]?.function.strict, false, JSON.stringify(inputSchema))
    assert.ok(warnings.some(({ keyword }) => keyword === 'strict'))
  }
})

test('calls drops the nulls that strict mode requires and keeps those that the tool accepts', () => {
  const inputSchema = {
    type: 'object',
    properties: {
      city: { type: 'string' },
      unit: { enum: ['c', 'f'] },
      note: { type: ['string', 'null'] },
      at: { anyOf: [{ type: 'object', properties: { lat: { type: 'number' } } }, { type: 'string' }] },
      list: { type: 'array', items: { $ref: '#/$defs/item' } },
    },
    required: ['city'],
    $defs: { item: { type: 'object', properties: { x: { type: 'number' }, y: { $ref: '#/$defs/item' } } } },
  }
  const args = {
    city: null,
    unit: null,
    note: null,
    at: { lat: null },
    list: [{ x: null, y: { x: 1, y: null } }, null],
  }
  const pruned = { city: null, note: null, at: {}, list: [{ y: { x: 1 } }, null] }
  for (const [strict, expected] of [
    [true, pruned],
    [false, args],
  ] as const) {
    const adapter = openaiChat({ strict })
    const { names } = adapter.tools([entryOf({ inputSchema })])
    const call = { id: 'c', function: { name: 'math__add', arguments: JSON.stringify(args) } }
    const [read] = adapter.calls({ tool_calls: [call] }, names)
    assert.ok(read?.ok)
    assert.deepEqual(read.args, expected)
  }
})

const scalar = fc.record(
  {
    type: fc.constantFrom('string', 'number', 'integer', 'boolean', ['string', 'null']),
    description: fc.constant('A value.'),
    format: fc.constantFrom('email', 'uri'),
    minLength: fc.constant(1),
    maximum: fc.constant(9),
    default: fc.constant('a'),
    not: fc.constant({ const: 'b' }),
  },
  { requiredKeys: ['type'] },
)
const { object } = fc.letrec<{ value: object; object: { [keyword: string]: unknown } }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    scalar,
    tie('object'),
    fc.record({ type: fc.constant('array'), items: tie('value'), uniqueItems: fc.constant(true) }),
    fc.record({ oneOf: fc.array(tie('value'), { minLength: 1, maxLength: 2 }), title: fc.constant('One') }),
    fc.record({ $ref: fc.constant('#/$defs/thing'), description: fc.constant('A thing.') }),
  ),
  object: fc.record(
    {
      type: fc.constant('object'),
      properties: fc.dictionary(fc.constantFrom('a', 'b', 'c'), tie('value'), { minKeys: 1 }),
      additionalProperties: fc.constant(false),
      minProperties: fc.constant(1),
    },
    { requiredKeys: ['type', 'properties'] },
  ),
}))

test('every object of a strict schema is closed, and every keyword is kept or named in a warning', () => {
  const property = fc.property(object, (given) => {
    const inputSchema = { ...given, $defs: { thing: { type: 'string', enum: ['x'] } } }
    const { tools, warnings } = openaiChat({ strict: true }).tools([entryOf({ inputSchema })])
    const written = tools[0]?.function
    assert.equal(written?.strict, true)
    for (const { path, keyword, value } of keywordsOf(written?.parameters, '')) {
      if (keyword !== 'properties') continue
      const owner = at(written?.parameters ?? {}, path.slice(0, -'/properties'.length)) as { [key: string]: unknown }
      assert.equal(owner.additionalProperties, false)
      assert.deepEqual(owner.required, Object.keys(value as object))
    }
    for (const { path, keyword } of keywordsOf(inputSchema, '')) {
      const reported = warnings.some((loss) => loss.keyword === keyword && loss.path === `/inputSchema${path}`)
      const inside = warnings.some(
        (loss) => ['oneOf', 'not'].includes(loss.keyword) && `/inputSchema${path}`.startsWith(`${loss.path}/`),
      )
      assert.ok(reported || inside || at(written?.parameters ?? {}, path) !== undefined, path)
    }
  })
  fc.assert(property, { numRuns: 200 })
})
