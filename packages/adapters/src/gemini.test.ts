import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testAdapter } from '@gantry/conformance/internal/adapter'
import { entryOf, resultOf } from '@gantry/conformance/internal/adapter-samples'
import type { Loss } from './adapter.ts'
import { gemini } from './gemini.ts'

testAdapter('gemini', {
  create: (options) => gemini(options),
  names: (tools) => tools.flatMap(({ functionDeclarations }) => functionDeclarations.map(({ name }) => name)),
  message: (calls) => ({
    role: 'model',
    parts: [{ text: 'Hm.' }, ...calls.map(({ id, name, args }) => ({ functionCall: { id, name, args } }))],
  }),
  readResult: ({ functionResponse: { id, response, parts = [] } }) => {
    const value = 'error' in response ? response.error : response.output
    return {
      id,
      isError: 'error' in response,
      text: typeof value === 'string' ? value : JSON.stringify(value),
      images: parts.length,
    }
  },
  argsAreText: false,
  hasIds: true,
  holdsImages: true,
})

/** The parameters of one tool, and what was said about them. */
function parametersOf(inputSchema: object): { parameters: unknown; losses: string[]; warnings: readonly Loss[] } {
  const { tools, warnings } = gemini().tools([entryOf({ inputSchema: { ...inputSchema } })])
  const losses = warnings.map(({ path, done }) => `${path.replace('/inputSchema', '')} ${done}`)
  return { parameters: tools[0]?.functionDeclarations[0]?.parameters, losses, warnings }
}

test('gemini translates a schema to OpenAPI 3.0', () => {
  const { parameters, losses } = parametersOf({
    type: 'object',
    properties: {
      name: { type: ['string', 'null'], maxLength: 5 },
      kind: { enum: ['a', 'b', null] },
      level: { type: 'integer', enum: [1, 2], exclusiveMinimum: 0 },
      when: { type: 'string', format: 'date-time' },
      mail: { type: 'string', format: 'email', description: 'An address.' },
      maybe: { anyOf: [{ type: 'number' }, { type: 'null' }] },
      list: { type: 'array' },
      either: { oneOf: [{ type: 'string' }, { type: 'number' }] },
    },
    required: ['name', 'other'],
    additionalProperties: false,
  })
  assert.deepEqual(parameters, {
    type: 'OBJECT',
    properties: {
      name: { type: 'STRING', maxLength: 5, nullable: true },
      kind: { type: 'STRING', enum: ['a', 'b'], nullable: true },
      level: { type: 'INTEGER', description: '[enum: [1,2]; exclusiveMinimum: 0]' },
      when: { type: 'STRING', format: 'date-time' },
      mail: { type: 'STRING', description: 'An address. [format: "email"]' },
      maybe: { type: 'NUMBER', nullable: true },
      list: { type: 'ARRAY', items: {} },
      either: { anyOf: [{ type: 'STRING' }, { type: 'NUMBER' }] },
    },
    required: ['name'],
    description: '[additionalProperties: false]',
  })
  assert.deepEqual(losses.sort(), [
    '/additionalProperties described',
    '/properties/either/oneOf widened',
    '/properties/kind/enum rewritten',
    '/properties/level/enum described',
    '/properties/level/exclusiveMinimum described',
    '/properties/mail/format described',
    '/properties/maybe/anyOf rewritten',
    '/properties/name/type rewritten',
    '/required widened',
  ])
})

test('gemini inlines references and widens a recursive one', () => {
  const node = { type: 'object', properties: { name: { type: 'string' }, next: { $ref: '#/$defs/node' } } }
  const { parameters, losses } = parametersOf({
    type: 'object',
    properties: { first: { $ref: '#/$defs/node' }, second: { $ref: '#/$defs/node' } },
    $defs: { node },
  })
  const written = { type: 'OBJECT', properties: { name: { type: 'STRING' }, next: {} } }
  assert.deepEqual(parameters, { type: 'OBJECT', properties: { first: written, second: written } })
  assert.ok(losses.includes('/properties/first/$ref rewritten'))
  assert.ok(losses.includes('/properties/second/properties/next/$ref widened'))
})

test('gemini bounds the size of references that expand to millions of schemas', () => {
  const levels = Array.from({ length: 40 }, (_, level) => [
    `l${level}`,
    { type: 'object', properties: { a: { $ref: `#/$defs/l${level + 1}` }, b: { $ref: `#/$defs/l${level + 1}` } } },
  ])
  const $defs = { ...Object.fromEntries(levels), l40: { type: 'string' } }
  const { parameters } = parametersOf({ type: 'object', properties: { top: { $ref: '#/$defs/l0' } }, $defs })
  assert.ok(JSON.stringify(parameters).length < 1_000_000)
})

test('a function without properties has no parameters, and its constraints are in its description', () => {
  const inputSchema = { type: 'object', minProperties: 1, additionalProperties: { type: 'string' } }
  const { tools, warnings } = gemini().tools([entryOf({ inputSchema })])
  assert.deepEqual(tools[0]?.functionDeclarations, [
    { name: 'math__add', description: 'Adds two numbers.\n[additionalProperties: {"type":"string"}]' },
  ])
  assert.ok(warnings.some(({ path, done }) => path === '/inputSchema/minProperties' && done === 'dropped'))
})

test('a call without an id has a result without an id', () => {
  const adapter = gemini()
  const { names } = adapter.tools([entryOf()])
  const parts = [{ functionCall: { name: 'math__add', args: { a: 1 } } }, { functionCall: { name: 'math__add' } }]
  const calls = adapter.calls({ parts }, names)
  assert.equal(calls.length, 2)
  const [call] = calls
  assert.ok(call?.ok && call.callId === undefined)
  assert.deepEqual(adapter.result(call, resultOf({ output: { sum: 1 } })), {
    functionResponse: { name: 'math__add', response: { output: { sum: 1 } } },
  })
})

test('a foreign function declaration is read as JSON Schema', () => {
  const parameters = {
    type: 'OBJECT',
    properties: { a: { type: 'STRING', nullable: true, enum: ['x'], example: 'x' } },
    propertyOrdering: ['a'],
  }
  const { tools, warnings } = gemini().read([{ functionDeclarations: [{ name: 'get it', parameters }] }])
  assert.deepEqual(tools[0]?.inputSchema, {
    type: 'object',
    properties: { a: { type: ['string', 'null'], enum: ['x', null], examples: ['x'] } },
  })
  assert.match(tools[0]?.name ?? '', /^get_it-[0-9a-f]{12}$/)
  assert.deepEqual(
    warnings.map(({ keyword }) => keyword),
    ['propertyOrdering', 'name'],
  )
})
