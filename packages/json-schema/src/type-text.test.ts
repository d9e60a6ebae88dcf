import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JsonSchema } from '@gantry/contract'
import fc from 'fast-check'
import { commentText, typeText } from './type-text.ts'

function type(schema: JsonSchema): string {
  return typeText(schema, { anything: 'unknown' })
}

const table: readonly (readonly [string, JsonSchema, string])[] = [
  ['nothing said', {}, 'unknown'],
  ['everything', true, 'unknown'],
  ['nothing', false, 'never'],
  ['a whole number', { type: 'integer' }, 'number'],
  ['several types', { type: ['string', 'null'] }, 'string | null'],
  ['listed values', { enum: ['a', 1, null, true, 'a'] }, '"a" | 1 | null | true'],
  ['one value', { const: 'x' }, '"x"'],
  ['a list of choices', { type: 'array', items: { enum: ['a', 'b'] } }, '("a" | "b")[]'],
  ['a list of objects', { items: { properties: { a: {} } } }, '{ a?: unknown }[]'],
  [
    'a tuple',
    { prefixItems: [{ type: 'string' }, { type: 'number' }], minItems: 1, items: false },
    '[string, number?]',
  ],
  ['an open object', { type: 'object' }, '{ [key: string]: unknown }'],
  ['a map', { type: 'object', additionalProperties: { type: 'number' } }, '{ [key: string]: number }'],
  ['a closed object', { type: 'object', additionalProperties: false }, '{ [key: string]: never }'],
  [
    'members',
    { type: 'object', properties: { a: { type: 'string' }, 'b-c': {} }, required: ['a'] },
    '{ a: string; "b-c"?: unknown }',
  ],
  ['more members', { properties: { a: {} }, additionalProperties: true }, '{ a?: unknown; [key: string]: unknown }'],
  ['either', { anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' } }] }, 'string | string[]'],
  ['either or anything', { oneOf: [{ type: 'string' }, {}] }, 'unknown'],
  ['both', { allOf: [{ properties: { a: {} } }, { properties: { b: {} } }] }, '{ a?: unknown } & { b?: unknown }'],
  [
    'a base with choices',
    { type: 'object', properties: { a: {} }, oneOf: [{ properties: { b: {} } }, { properties: { c: {} } }] },
    '{ a?: unknown } & ({ b?: unknown } | { c?: unknown })',
  ],
  ['a reference', { $ref: '#/$defs/a~1b', $defs: { 'a/b': { type: 'string' } } }, 'string'],
  ['a reference elsewhere', { $ref: 'https://example.com/x' }, 'unknown'],
  ['a reference to nothing', { $ref: '#/constructor/name' }, 'unknown'],
]

for (const [what, schema, expected] of table) {
  test(`${what} becomes ${expected}`, () => assert.equal(type(schema), expected))
}

test('circular references end', () => {
  const node = { type: 'object', properties: { next: { $ref: '#' }, value: { type: 'number' } } } as const
  assert.equal(type(node), '{ next?: unknown; value?: number }')
  assert.equal(type({ $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } }), 'unknown')
})

test('doubling references, deep nesting and long lists of values are truncated', () => {
  const $defs: { [name: string]: JsonSchema } = {}
  for (let level = 0; level < 30; level++) {
    const next = { $ref: `#/$defs/d${level + 1}` }
    $defs[`d${level}`] = { type: 'object', properties: { a: next, b: next } }
  }
  assert.ok(type({ $ref: '#/$defs/d0', $defs }).length < 30_000)
  let deep: JsonSchema = { type: 'string' }
  for (let level = 0; level < 1_000; level++) deep = { type: 'array', items: deep }
  assert.ok(type(deep).length < 100)
  assert.equal(type({ type: 'string', enum: Array.from({ length: 1_000 }, (_, index) => `v${index}`) }), 'string')
  assert.equal(type({ type: 'string', enum: ['x'.repeat(10_000)] }), 'string')
})

test('a description cannot end the comment that it is in', () => {
  const hostile = 'end */ } declare const evil: 1 /* \u202e*\u200b/ @ts-ignore\n\n* second\u2028line'
  const text = type({ type: 'object', properties: { a: { type: 'string', description: hostile, default: '*/' } } })
  assert.equal(text.match(/\*\//g)?.length, 1)
  assert.match(text, /^\{\n {2}\/\*\* end \* \/ \} declare const evil.* \*\/\n {2}a\?: string\n\}$/u)
  assert.ok(!/[\u202e\u2028\u200b]/.test(text) && !text.includes('@ts-ignore'))
  assert.equal(commentText('x'.repeat(500), 20), `${'x'.repeat(19)}…`)
})

test('names that are not identifiers are quoted and escaped', () => {
  const names = ['a b', '', '"', "'", 'x\n}', '__proto__', '$' + '{x}', '\u2028', '*/', 'ключ']
  const text = type(
    JSON.parse(
      JSON.stringify({ type: 'object', properties: {} }).replace(
        '{}',
        `{${names.map((name) => `${JSON.stringify(name)}:{}`).join(',')}}`,
      ),
    ),
  )
  for (const name of names)
    assert.ok(text.includes(name === '__proto__' ? '__proto__?:' : `${JSON.stringify(name)}?:`), name)
})

test('any JSON value is accepted as a schema without an exception', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), (schema) => {
      assert.equal(typeof type(schema as JsonSchema), 'string')
    }),
  )
})
