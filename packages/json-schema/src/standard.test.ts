import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as v from 'valibot'
import { z } from 'zod'
import {
  type FromSchema,
  type InferInput,
  type InferOutput,
  isStandardSchema,
  jsonSchemaOf,
  validateStandard,
} from './standard.ts'

const withZod = z.object({ list: z.array(z.object({ 'a/b': z.coerce.number() })) })

test('schemas of zod and valibot are recognised, JSON Schemas are not', () => {
  assert.equal(isStandardSchema(withZod), true)
  assert.equal(isStandardSchema(v.string()), true)
  for (const other of [{ type: 'string' }, null, true, 'x', { '~standard': 1 }])
    assert.equal(isStandardSchema(other), false)
})

test('an object that only resembles a Standard Schema is not recognised', () => {
  const validate = (value: unknown) => ({ value })
  assert.equal(isStandardSchema({ '~standard': { version: 1, vendor: 'x', validate } }), true)
  for (const standard of [
    { validate: 1 },
    { version: 1, vendor: 'x', validate: 1 },
    { version: 1, vendor: 'x' },
    { version: 2, vendor: 'x', validate },
    { version: 1, validate },
    null,
  ]) {
    assert.equal(isStandardSchema({ '~standard': standard }), false)
  }
})

test('long paths and messages of a vendor are truncated in the middle', () => {
  const key = 'k'.repeat(100_000)
  const validate = () => ({ issues: [{ message: `bad ${key} end`, path: Array<string>(20).fill(key) }] })
  const result = validateStandard({ '~standard': { version: 1, vendor: 'x', validate } }, {})
  assert.ok(!(result instanceof Promise) && 'issues' in result)
  assert.equal(result.issues[0]?.path.length, 1_000)
  assert.match(result.issues[0]?.message ?? '', /^bad k{900,}…k{900,} end$/)
})

test('the JSON Schema of a vendor is used for input and output, and is absent from vendors without one', () => {
  const schema = z.object({ n: z.string().default('x') })
  assert.deepEqual((jsonSchemaOf(schema, 'output') as { required: unknown }).required, ['n'])
  assert.equal('required' in (jsonSchemaOf(schema, 'input') as object), false)
  assert.equal(jsonSchemaOf(v.string(), 'input'), undefined)
  assert.equal(jsonSchemaOf(z.date(), 'input'), undefined)
})

test('a synchronous vendor validates synchronously and returns its output value', () => {
  assert.deepEqual(validateStandard(withZod, { list: [{ 'a/b': '3' }] }), { value: { list: [{ 'a/b': 3 }] } })
})

test('paths of a vendor become JSON pointers', () => {
  const result = validateStandard(withZod, { list: [{ 'a/b': 'x' }] })
  assert.ok(!(result instanceof Promise) && 'issues' in result)
  assert.equal(result.issues[0]?.path, '/list/0/a~1b')
})

test('an asynchronous vendor validates with a promise', async () => {
  const schema = v.pipeAsync(
    v.string(),
    v.checkAsync(async (text) => text === 'yes', 'must be yes'),
  )
  assert.deepEqual(await validateStandard(schema, 'no'), { issues: [{ path: '', message: 'must be yes' }] })
})

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <A, B>(_same: Same<A, B>): void => {}

test('arguments are typed by the schema', () => {
  const schema = {
    type: 'object',
    properties: {
      a: { type: 'number' },
      b: { enum: ['x', 'y'] },
      c: { type: 'array', items: { type: ['string', 'null'] } },
    },
    required: ['a'],
  } as const
  same<FromSchema<typeof schema>, { a: number; b?: 'x' | 'y'; c?: (string | null)[] }>(true)
  same<FromSchema<{ readonly $ref: '#' }>, unknown>(true)
  same<FromSchema<{ readonly const: 5 }>, 5>(true)
  const trimmed = z.string().transform((text) => text.length)
  same<InferOutput<typeof trimmed>, number>(true)
  same<InferInput<typeof trimmed>, string>(true)
})
