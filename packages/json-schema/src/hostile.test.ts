import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Issue, type JsonSchema, ToolError } from '@gantry/contract'
import { type CompileOptions, checkSchema, compileSchema } from './validator.ts'

/** The issues of a schema that both entries must refuse alike. */
function refusal(schema: unknown, options?: CompileOptions): readonly Issue[] {
  const caught = [compileSchema, checkSchema].map((entry) => {
    try {
      entry(schema as JsonSchema, options)
    } catch (error) {
      assert.ok(ToolError.is(error) && error.code === 'SCHEMA_INVALID', String(error))
      return error.details?.issues ?? []
    }
    return assert.fail('the schema was accepted')
  })
  assert.deepEqual(caught[0], caught[1])
  return caught[0] ?? []
}

const nest = (levels: number, wrap: (inner: unknown) => unknown): unknown => {
  let value: unknown = {}
  for (let level = 0; level < levels; level++) value = wrap(value)
  return value
}

test('a reference never leaves the document', () => {
  for (const uri of [
    'http://example.com/a.json',
    'file:///etc/passwd',
    'other.json',
    'urn:x:y',
    '//host/a',
    'data:,{}',
  ]) {
    const [issue] = refusal({ properties: { a: { $ref: uri } } })
    assert.equal(issue?.path, '/properties/a/$ref')
    assert.match(issue?.message ?? '', /refers outside the document/)
  }
})

test('a reference to nothing is refused', () => {
  for (const ref of ['#/$defs/none', '#none', '#/type', '#/__proto__', '#/constructor', '#/%zz']) {
    assert.equal(refusal({ $ref: ref, type: 'object' })[0]?.path, '/$ref')
  }
})

test('a reference resolves in the given documents', () => {
  const documents = new Map([['https://example.com/n.json', { type: 'number' }]])
  assert.equal(compileSchema({ $ref: 'https://example.com/n.json' }, { documents }).check('x'), false)
})

test('an unknown $schema is refused', () => {
  assert.equal(refusal({ $schema: 'http://json-schema.org/draft-04/schema#' })[0]?.path, '/$schema')
  assert.equal(refusal({ $schema: 5 })[0]?.path, '/$schema')
})

test('reference cycles that never descend into the value are refused', () => {
  const loops = [
    { $ref: '#' },
    { allOf: [{ $ref: '#/$defs/b' }], $defs: { b: { anyOf: [{ $ref: '#' }] } } },
    { $defs: { a: { $ref: '#/$defs/b' }, b: { not: { $ref: '#/$defs/a' } } } },
    { if: true, then: { $ref: '#' } },
    { dependentSchemas: { a: { $ref: '#' } } },
    { $schema: 'http://json-schema.org/draft-07/schema#', definitions: { a: { $ref: '#/definitions/a' } } },
  ]
  for (const schema of loops) assert.match(refusal(schema)[0]?.message ?? '', /comes back to itself/)
})

test('a loop of dynamic references ends as an issue', () => {
  const { check, issues } = compileSchema({ $dynamicAnchor: 'a', allOf: [{ $dynamicRef: '#a' }] })
  assert.equal(check(1), false)
  assert.match(issues(1)[0]?.message ?? '', /nested too deeply/)
})

test('recursive schemas of trees are accepted', () => {
  const { check } = compileSchema({ type: 'object', properties: { children: { items: { $ref: '#' } } } })
  assert.equal(check({ children: [{ children: [{}] }] }), true)
  assert.equal(check({ children: [{ children: [1] }] }), false)
})

test('a schema that is too deep, too wide or endless is refused', () => {
  const cyclic: Record<string, unknown> = {}
  cyclic.properties = { self: cyclic }
  assert.match(refusal(nest(10_000, (inner) => ({ not: inner }))).at(-1)?.message ?? '', /nested deeper than 256/)
  assert.match(refusal(nest(10_000, (inner) => ({ properties: { a: inner } }))).at(-1)?.message ?? '', /nested deeper/)
  assert.match(refusal(cyclic).at(-1)?.message ?? '', /nested deeper/)
  assert.match(refusal({ allOf: Array(100_000).fill({ type: 'string' }) }).at(-1)?.message ?? '', /20000 sub-schemas/)
  assert.match(refusal(nest(60, (inner) => ({ allOf: [inner, inner] }))).at(-1)?.message ?? '', /20000 sub-schemas/)
})

test('the values of an enum are limited in number, depth and length', () => {
  assert.match(refusal({ enum: Array(1_000_000).fill(1) })[0]?.message ?? '', /more than 20000 values/)
  assert.match(refusal({ const: nest(10_000, (inner) => [inner]) })[0]?.message ?? '', /deeper than 256/)
  assert.match(refusal({ enum: ['x'.repeat(50_000_000)] })[0]?.message ?? '', /2000000 characters/)
})

test('references that multiply end within the step limit', () => {
  const $defs: Record<string, unknown> = { a0: { type: 'string' } }
  for (let index = 1; index <= 60; index++) {
    $defs[`a${index}`] = { anyOf: [{ $ref: `#/$defs/a${index - 1}` }, { $ref: `#/$defs/a${index - 1}` }] }
  }
  const { check, issues } = compileSchema({ $ref: '#/$defs/a60', $defs })
  assert.equal(check(1), false)
  assert.match(issues(1)[0]?.message ?? '', /too complex to check/)
})

/** A schema that applies another 2^17 times to the same value. */
function multiplied(leaf: JsonSchema): JsonSchema {
  const $defs: Record<string, JsonSchema> = { a0: leaf }
  for (let level = 1; level <= 17; level++) {
    const below = { $ref: `#/$defs/a${level - 1}` }
    $defs[`a${level}`] = { anyOf: [below, below] }
  }
  return { $ref: '#/$defs/a17', $defs }
}

test('comparisons of large constants, enum values and items count against the step limit', () => {
  const list = (last: unknown): unknown[] => [...Array(19_000).fill(0), last]
  const record = (last: unknown): unknown => Object.fromEntries(list(last).map((item, index) => [`k${index}`, item]))
  const text = (last: string): string => `${'x'.repeat(500_000)}${last}`
  const deep = (last: unknown): unknown => nest(200, (inner) => [inner, last])
  const twins = [text('a'), JSON.parse(JSON.stringify(text('a')))]
  const cases: readonly (readonly [schema: unknown, value: unknown])[] = [
    [{ const: list(1) }, list(2)],
    [{ const: record(1) }, record(2)],
    [{ const: { a: 1 } }, record(2)],
    [{ const: text('a') }, text('b')],
    [{ const: [text('a')] }, [text('b')]],
    [{ enum: [text('a'), text('c')] }, text('b')],
    [{ enum: [text('a'), 1, 2, 3, 4, 5, 6, 7, 8, 9] }, text('b')],
    [{ enum: Array.from({ length: 40 }, (_, index) => [deep(0), index]) }, [deep(0), -1]],
    [{ uniqueItems: true }, twins],
    [{ uniqueItems: true }, [...twins, 1, 2, 3, 4, 5, 6, 7]],
  ]
  for (const [leaf, value] of cases) {
    const { check, issues } = compileSchema(multiplied(leaf as JsonSchema))
    assert.equal(check(value), false)
    assert.match(issues(value).at(-1)?.message ?? '', /too complex to check/)
  }
})

test('one comparison with a large constant, and many with small ones, stay within the step limit', () => {
  const list = Array.from({ length: 19_000 }, (_, index) => index)
  assert.equal(compileSchema({ const: list }).check([...list]), true)
  assert.equal(compileSchema({ const: 'x'.repeat(500_000) }).check('x'.repeat(500_000)), true)
  const words = compileSchema({ items: { enum: ['a', 'b', null] } })
  assert.equal(words.check(Array(1_500_000).fill('b')), true)
  assert.equal(words.check(['c']), false)
  const points = compileSchema({ items: { enum: [{ x: 1 }, { x: 2 }] } })
  assert.equal(points.check(Array(100_000).fill({ x: 2 })), true)
  assert.equal(compileSchema({ items: { uniqueItems: true } }).check(Array(100_000).fill(['a', 'b', 'c'])), true)
})

test('long keys and values are truncated in issues', () => {
  const long = 'k~/'.repeat(100_000)
  const value = nest(50, (inner) => ({ [long]: inner, [`${long}!`]: long }))
  const schemas: JsonSchema[] = [
    { additionalProperties: { anyOf: [{ $ref: '#' }, { const: 1 }] }, required: ['none', long.toUpperCase()] },
    { additionalProperties: { $ref: '#' }, propertyNames: { pattern: `^(?:${'abc|'.repeat(2_000)}x)$` } },
    { properties: { [long]: { $ref: '#' } }, additionalProperties: { enum: [long.toUpperCase()] } },
    { dependentRequired: { [long]: ['none'] } },
  ]
  for (const schema of schemas) {
    const issues = compileSchema(schema).issues(value)
    assert.ok(issues.length > 0)
    for (const { path, schemaPath, message } of issues) {
      assert.ok(path.length <= 1_000 && (schemaPath ?? '').length <= 1_000 && message.length <= 2_000)
    }
  }
  const [issue] = compileSchema({ additionalProperties: false }).issues({ [`first${'x'.repeat(900)}last`]: 1 })
  assert.match(issue?.path ?? '', /^\/firstx{50,}…x{50,}last$/)
})

test('long names and references of a refused schema are truncated in issues', () => {
  const long = 'k'.repeat(100_000)
  const [issue] = refusal({ properties: { [long]: { $ref: `#/${long}` } } })
  assert.ok(issue !== undefined && issue.path.length <= 1_000 && issue.message.length <= 2_000)
})

test('`not` does not turn an exhausted step limit into success', () => {
  const schema = { not: { items: { type: 'string' } } }
  assert.equal(compileSchema(schema, { limits: { steps: 50 } }).check(Array(100).fill(1)), false)
})

test('nested unevaluatedProperties end within the step limit', () => {
  const schema = nest(60, (inner) => ({ anyOf: [inner, { properties: { b: true } }], unevaluatedProperties: true }))
  const { check, issues } = compileSchema(schema as JsonSchema)
  assert.equal(check({ a: 1 }), issues({ a: 1 }).length === 0)
})

test('a deeply nested value is an issue, not a stack overflow', () => {
  const value = nest(100_000, (inner) => ({ c: inner, d: [inner] }))
  const schemas: JsonSchema[] = [
    { properties: { c: { $ref: '#' } } },
    { properties: { c: { allOf: [{ $ref: '#' }] } }, unevaluatedProperties: { $ref: '#' } },
    { $dynamicAnchor: 'n', properties: { c: { $dynamicRef: '#n' } }, additionalProperties: true },
    nest(100, (inner) => ({ allOf: [inner, { properties: { c: { $ref: '#' } } }] })) as JsonSchema,
  ]
  for (const schema of schemas) {
    const { check, issues } = compileSchema(schema)
    assert.equal(check(value), false)
    assert.match(issues(value).at(-1)?.message ?? '', /nested too deeply/)
  }
  const unique = compileSchema({ uniqueItems: true })
  assert.equal(unique.check([value, 1]), false)
})

test('uniqueItems is linear in the size of the array', () => {
  const { check, issues } = compileSchema({ uniqueItems: true })
  const items = Array.from({ length: 50_000 }, (_, index) => ({ index }))
  assert.equal(check(items), true)
  assert.equal(check([...items, { index: 7 }]), false)
  assert.match(
    issues([
      { a: 1, b: 2 },
      { b: 2, a: 1 },
    ])[0]?.message ?? '',
    /items 0 and 1/,
  )
  assert.equal(check([1, true, '1', null, 'null', [1], ['1'], { a: 1 }, '{"a":1}']), true)
})

test('malformed keywords are refused with their path and a hint', () => {
  const cases: readonly (readonly [schema: unknown, path: string, message: RegExp])[] = [
    [{ type: 'strng' }, '/type', /did you mean string\?/],
    [{ properties: { a: { type: 'int' } } }, '/properties/a/type', /did you mean integer\?/],
    [{ type: ['string', 'any'] }, '/type/1', /leave type out/],
    [{ required: 'a' }, '/required', /array of property names/],
    [{ properties: { a: { required: true } } }, '/properties/a/required', /on the object that has/],
    [{ minLength: -1 }, '/minLength', /integer of at least 0/],
    [{ properties: [] }, '/properties', /must be an object/],
    [{ items: [{}] }, '/items', /prefixItems/],
    [{ allOf: [] }, '/allOf', /at least one schema/],
    [{ properties: { 'a/b': 5 } }, '/properties/a~1b', /an object or a boolean/],
    [{ pattern: '(' }, '/pattern', /not a regular expression/],
    [{ patternProperties: { '^(a|b)*\\1': {} } }, '/patternProperties/^(a|b)*\\1', /cannot be bounded/],
    [{ exclusiveMinimum: true }, '/exclusiveMinimum', /must be a number/],
    [{ multipleOf: 0 }, '/multipleOf', /greater than 0/],
    [{ $anchor: '#x' }, '/$anchor', /must be a name/],
    [{ $id: '#x' }, '/$id', /belongs in \$anchor/],
    [null, '', /an object or a boolean/],
    ['string', '', /an object or a boolean/],
  ]
  for (const [schema, path, message] of cases) {
    const [issue] = refusal(schema)
    assert.equal(issue?.path, path)
    assert.match(issue?.message ?? '', message)
  }
})

test('all malformed keywords are reported together', () => {
  const issues = refusal({ minimum: 'x', properties: { a: { type: 1 }, b: { enum: 3 } } })
  assert.deepEqual(
    issues.map((issue) => issue.path),
    ['/minimum', '/properties/a/type', '/properties/b/enum'],
  )
})

test('a __proto__ key in a schema is data and changes no prototype', () => {
  const schema = JSON.parse(
    '{"__proto__":{"type":"number"},"$defs":{"__proto__":{"type":"string"}},"$ref":"#/$defs/__proto__"}',
  )
  assert.equal(compileSchema(schema).check('x'), true)
  assert.equal(compileSchema(schema).check(1), false)
  assert.equal(({} as Record<string, unknown>).type, undefined)
})

test('a text too long for a pattern fails validation, also under `not`', () => {
  const text = `${'a'.repeat(200_000)}-`
  const pattern = '^(a+)-\\1$'
  const schemas: JsonSchema[] = [
    { pattern },
    { not: { pattern } },
    { not: { not: { pattern } } },
    { if: { pattern }, else: {} },
    { anyOf: [{ pattern }, { not: { pattern } }] },
  ]
  for (const schema of schemas) {
    const validator = compileSchema(schema)
    assert.equal(validator.check(text), false, JSON.stringify(schema))
    assert.match(validator.issues(text)[0]?.message ?? '', /too long/)
  }
  assert.equal(compileSchema({ not: { pattern } }).check('aa-b'), true, 'control')
})
