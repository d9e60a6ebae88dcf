import type { Json, JsonSchema, Result, Tool } from '@gantry/contract'
import type { CatalogEntry } from '@gantry/core/internal/catalogs/catalog'
import { memoryCatalog } from '@gantry/core/internal/catalogs/memory'
import fc from 'fast-check'

/** An entry of a catalog, for a tool of which only some parts matter. */
export function entryOf(tool: Partial<Tool> = {}): CatalogEntry {
  return memoryCatalog().register({
    namespace: 'math',
    name: 'add',
    version: '1.0.0',
    description: 'Adds two numbers.',
    inputSchema: { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] },
    backends: [{ kind: 'local' }],
    effect: 'read',
    ...tool,
  })
}

/** A Result that went well, unless parts of it say otherwise. */
export function resultOf(parts: Partial<Result>): Result {
  return {
    callId: 'run-1',
    status: 'ok',
    output: null,
    content: [],
    warnings: [],
    artifacts: [],
    effects: [],
    usage: { wallMs: 1, enforced: {} },
    attempts: 1,
    startedAt: '2026-11-15T00:00:00.000Z',
    durationMs: 1,
    ...parts,
  }
}

/** Arguments as they come out of JSON text, with numbers that a double holds. */
export const someArgs: fc.Arbitrary<{ [key: string]: Json }> = fc
  .dictionary(
    fc.string({ unit: 'grapheme', maxLength: 8 }).filter((key) => key !== '__proto__'),
    fc.jsonValue({ maxDepth: 3, noUnicodeString: false }) as fc.Arbitrary<Json>,
    { maxKeys: 5 },
  )
  .map((value) =>
    JSON.parse(JSON.stringify(value).replaceAll('"__proto__"', '"proto"'), (_key, member) =>
      Number.isInteger(member) ? (member % 2 ** 50) + 0 : member,
    ),
  )

const part = fc.stringMatching(/^[A-Za-z0-9_](?:\.?[A-Za-z0-9_-]){0,70}$/)

/** Ids from the whole range of what an id may be, with many near each other. */
export const someIds = fc.uniqueArray(
  fc.record({
    namespace: fc
      .oneof(fc.constantFrom('a', 'a_', 'a__b', '_', '9', 'a.b', 'a_b'), part)
      .map((text) => text.slice(0, 64)),
    name: fc.oneof(fc.constantFrom('b', '_b', 'b__c', '__b', 'b-c', 'b.c', 'x'.repeat(128)), part),
    version: fc.constantFrom('1.0.0', '1.0.1', '2.0.0-rc.1'),
  }),
  { selector: ({ namespace, name, version }) => `${namespace}:${name}:${version}`, minLength: 1, maxLength: 12 },
)

const leaf: fc.Arbitrary<{ [keyword: string]: unknown }> = fc.record(
  {
    type: fc.constantFrom('string', 'number', 'integer', 'boolean', 'array', ['string', 'null'], ['string', 'number']),
    title: fc.constant('A title'),
    description: fc.constant('A description.'),
    enum: fc.constantFrom(['a', 'b'], [1, 2], ['a', null]),
    const: fc.constantFrom('a', 7),
    default: fc.constantFrom('a', 5),
    examples: fc.constant(['a']),
    minLength: fc.constant(1),
    maxLength: fc.constant(9),
    pattern: fc.constant('^a+$'),
    format: fc.constantFrom('date-time', 'email', 'uri'),
    minimum: fc.constant(0),
    exclusiveMaximum: fc.constant(10),
    multipleOf: fc.constant(2),
    uniqueItems: fc.constant(true),
    minItems: fc.constant(1),
    deprecated: fc.constant(true),
    readOnly: fc.constant(true),
    $comment: fc.constant('A comment.'),
    'x-vendor': fc.constant({ a: 1 }),
  },
  { requiredKeys: [] },
)

/** Schemas with every kind of keyword, nested; references go to `$defs/thing` of the top. */
const { node } = fc.letrec<{ node: { [keyword: string]: unknown }; object: { [keyword: string]: unknown } }>((tie) => ({
  node: fc.oneof({ maxDepth: 3, withCrossShrink: true }, leaf, tie('object'), fc.constant({ $ref: '#/$defs/thing' })),
  object: fc.record(
    {
      type: fc.constant('object'),
      description: fc.constant('An object.'),
      properties: fc.dictionary(fc.constantFrom('a', 'b', 'c/d', 'type'), tie('node'), { maxKeys: 3 }),
      required: fc.constantFrom(['a'], []),
      additionalProperties: fc.constantFrom(false, true, { type: 'string' }),
      patternProperties: fc.constant({ '^x-': { type: 'string', minLength: 2 } }),
      minProperties: fc.constant(1),
      propertyNames: fc.constant({ maxLength: 20 }),
      dependentRequired: fc.constant({ a: ['b'] }),
      items: tie('node'),
      prefixItems: fc.array(tie('node'), { minLength: 1, maxLength: 2 }),
      contains: fc.constant({ type: 'string' }),
      anyOf: fc.array(fc.oneof(tie('node'), fc.constant({ type: 'null' })), { minLength: 1, maxLength: 3 }),
      oneOf: fc.array(tie('node'), { minLength: 1, maxLength: 2 }),
      allOf: fc.array(tie('node'), { minLength: 1, maxLength: 2 }),
      not: fc.constant({ const: 3 }),
      if: fc.constant({ required: ['a'] }),
      then: fc.constant({ required: ['b'] }),
    },
    { requiredKeys: ['type'] },
  ),
}))

/** Schemas of arguments: an object on top, and everything within. */
export const someSchemas: fc.Arbitrary<{ [keyword: string]: unknown }> = fc.record(
  {
    type: fc.constant('object'),
    properties: fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd', '$ref'), node, { maxKeys: 4 }),
    required: fc.constantFrom(['a'], ['a', 'b'], []),
    additionalProperties: fc.constantFrom(false, true, { type: 'string' }),
    $schema: fc.constant('https://json-schema.org/draft/2020-12/schema'),
    $defs: fc.record({ thing: leaf }),
    minProperties: fc.constant(1),
    anyOf: fc.array(leaf, { minLength: 1, maxLength: 2 }),
    description: fc.constant('All of it.'),
  },
  { requiredKeys: ['type', '$defs'] },
)

/** A keyword of a schema with its path. */
export interface Keyword {
  readonly path: string
  readonly keyword: string
  readonly value: unknown
  /** Its value is data, not more schemas. */
  readonly isLeaf: boolean
}

const maps = ['properties', 'patternProperties', '$defs', 'dependentSchemas']
const lists = ['anyOf', 'oneOf', 'allOf', 'prefixItems']
const singles = ['items', 'additionalProperties', 'propertyNames', 'contains', 'not', 'if', 'then', 'else']

/** Every keyword of a schema, its sub-schemas included. */
export function keywordsOf(schema: unknown, path: string): Keyword[] {
  if (typeof schema !== 'object' || schema === null) return []
  return Object.entries(schema).flatMap(([keyword, value]): Keyword[] => {
    const at = `${path}/${segmentOf(keyword)}`
    const below = (part: unknown, key: string | number): Keyword[] =>
      keywordsOf(part, `${at}/${segmentOf(String(key))}`)
    const isMap = maps.includes(keyword)
    const isList = lists.includes(keyword)
    const isOne = singles.includes(keyword) && typeof value === 'object'
    const inside = isMap
      ? Object.entries(Object(value)).flatMap(([name, part]) => below(part, name))
      : isList
        ? [value].flat().flatMap(below)
        : isOne
          ? keywordsOf(value, at)
          : []
    return [{ path: at, keyword, value, isLeaf: !isMap && !isList && !isOne }, ...inside]
  })
}

function segmentOf(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1')
}

/** The value at a path; the lookup descends into a schema that was wrapped to be nullable. */
export function at(schema: JsonSchema, path: string): unknown {
  let here: unknown = schema
  for (const segment of path.split('/').slice(1)) {
    const key = segment.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof here !== 'object' || here === null) return undefined
    const wrapped: unknown = Reflect.get(here, 'anyOf')
    if (!Object.hasOwn(here, key) && Array.isArray(wrapped) && wrapped.length === 2) here = wrapped[0]
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, key)) return undefined
    here = Reflect.get(here, key)
  }
  return here
}
