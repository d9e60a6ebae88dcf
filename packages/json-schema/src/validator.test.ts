import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compileSchema } from './validator.ts'

const person = {
  type: 'object',
  properties: { name: { type: 'string' }, 'a/b': { type: 'array', items: { type: 'number', minimum: 3 } } },
  required: ['name'],
  additionalProperties: false,
}

test('every issue has its path in the value, its path in the schema and a message', () => {
  assert.deepEqual(compileSchema(person).issues({ 'a/b': [5, '6', 1], extra: 1 }), [
    { path: '', schemaPath: '/required', keyword: 'required', message: 'must have the property "name"' },
    {
      path: '/a~1b/1',
      schemaPath: '/properties/a~1b/items/type',
      keyword: 'type',
      message: 'must be number, but is string',
    },
    {
      path: '/a~1b/2',
      schemaPath: '/properties/a~1b/items/minimum',
      keyword: 'minimum',
      message: 'must be at least 3, but is 1',
    },
    {
      path: '/extra',
      schemaPath: '/additionalProperties',
      keyword: 'additionalProperties',
      message: 'is not an allowed property',
    },
  ])
})

test('an issue behind a reference has the path of the referenced rule', () => {
  const { issues } = compileSchema({ $ref: '#/$defs/n', $defs: { n: { type: 'number' } } })
  assert.equal(issues('x')[0]?.schemaPath, '/$defs/n/type')
})

test('when no alternative matches, the issues of the nearest one are reported', () => {
  const { issues } = compileSchema({
    anyOf: [
      { type: 'object', required: ['a', 'b'] },
      { type: 'object', required: ['c'] },
    ],
  })
  assert.deepEqual(
    issues({}).map((issue) => issue.message),
    ['must match at least one of 2 alternatives', 'must have the property "c"'],
  )
})

test('the report stops at the limit of issues', () => {
  const { issues } = compileSchema({ items: { type: 'string' } }, { limits: { issues: 3 } })
  assert.equal(issues([1, 2, 3, 4, 5]).length, 3)
})

test('names that every object inherits are properties like any other', () => {
  const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty']
  const properties = JSON.parse(`{${names.map((name) => `"${name}":{"type":"number"}`).join()}}`)
  const validator = compileSchema({ type: 'object', properties, required: names })
  assert.equal(validator.check({}), false)
  assert.equal(validator.issues({}).length, 4)
  assert.equal(validator.check(JSON.parse(`{${names.map((name) => `"${name}":1`).join()}}`)), true)
  assert.equal(validator.check(JSON.parse(`{${names.map((name) => `"${name}":"x"`).join()}}`)), false)
  assert.equal(Object.hasOwn(Object.prototype, 'type'), false)
})

test('inherited members do not satisfy a schema', () => {
  const value: unknown = Object.create({ name: 'x' })
  assert.equal(compileSchema(person).check(value), false)
})

test('numbers are checked by their decimal digits as written, and NaN is not a number', () => {
  assert.equal(compileSchema({ multipleOf: 0.01 }).check(19.99), true)
  assert.equal(compileSchema({ multipleOf: 0.1 }).check(0.35), false)
  assert.equal(compileSchema({ multipleOf: 1e-7 }).check(1.5e-6), true)
  assert.equal(compileSchema({ type: 'integer' }).check(JSON.parse('1.0')), true)
  assert.equal(compileSchema({ type: 'number' }).check(Number.NaN), false)
})

test('string lengths count code points', () => {
  assert.equal(compileSchema({ maxLength: 2 }).check('💩💩'), true)
  assert.equal(compileSchema({ minLength: 3 }).check('💩💩'), false)
})

test('a schema can refer to the metaschemas without any document', () => {
  for (const uri of ['https://json-schema.org/draft/2020-12/schema', 'http://json-schema.org/draft-07/schema#']) {
    const { check } = compileSchema({ $ref: uri })
    assert.equal(check({ type: 'object', properties: { a: { minLength: 1 } } }), true)
    assert.equal(check({ type: 'object', properties: { a: { minLength: -1 } } }), false)
  }
})

test('a validator can be used again after a value exhausted it', () => {
  const validator = compileSchema({ items: { type: 'number' } }, { limits: { steps: 10 } })
  assert.equal(validator.check(Array(100).fill(1)), false)
  assert.equal(validator.check([1, 2]), true)
})
