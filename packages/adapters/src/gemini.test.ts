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
function parametersOf(inputSchema: object): { parameters: unknown; told: string[]; warnings: readonly Loss[] } {
  const { tools, warnings } = gemini().tools([entryOf({ inputSchema: { ...inputSchema } })])
  const told = warnings.map(({ path, done }) => `${path.replace('/inputSchema', '')} ${done}`)
  return { parameters: tools[0]?.functionDeclarations[0]?.parameters, told, warnings }
}

test('a schema is said in the words of OpenAPI 3.0', () => {
  const { parameters, told } = parametersOf({
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
  assert.deepEqual(told.sort(), [
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

test('references are written out, and one without end stops', () => {
  const node = { type: 'object', properties: { name: { type: 'string' }, next: { $ref: '#/$defs/node' } } }
  const { parameters, told } = parametersOf({
    type: 'object',
    properties: { first: { $ref: '#/$defs/node' }, second: { $ref: '#/$defs/node' } },
    $defs: { node },
  })
  const written = { type: 'OBJECT', properties: { name: { type: 'STRING' }, next: {} } }
  assert.deepEqual(parameters, { type: 'OBJECT', properties: { first: written, second: written } })
  assert.ok(told.includes('/properties/first/$ref rewritten'))
  assert.ok(told.includes('/properties/second/properties/next/$ref widened'))
})

test('a few references that stand for millions of schemas stay small', () => {
  const levels = Array.from({ length: 40 }, (_, level) => [
    `l${level}`,
    { type: 'object', properties: { a: { $ref: `#/$defs/l${level + 1}` }, b: { $ref: `#/$defs/l${level + 1}` } } },
  ])
  const $defs = { ...Object.fromEntries(levels), l40: { type: 'string' } }
  const { parameters } = parametersOf({ type: 'object', properties: { top: { $ref: '#/$defs/l0' } }, $defs })
  assert.ok(JSON.stringify(parameters).length < 1_000_000)
})

test('a function without parameters has none, and its rules stand in its description', () => {
  const inputSchema = { type: 'object', minProperties: 1, additionalProperties: { type: 'string' } }
  const { tools, warnings } = gemini().tools([entryOf({ inputSchema })])
  assert.deepEqual(tools[0]?.functionDeclarations, [
    { name: 'math__add', description: 'Adds two numbers.\n[additionalProperties: {"type":"string"}]' },
  ])
  assert.ok(warnings.some(({ path, done }) => path === '/inputSchema/minProperties' && done === 'dropped'))
})

test('a call without an id is answered without one', () => {
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

test('a foreign declaration comes back as JSON Schema', () => {
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
