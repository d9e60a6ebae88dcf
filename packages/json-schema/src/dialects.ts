import type { JsonSchema } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import * as array from './keywords/array.ts'
import type { Keyword, Shape, Vocabulary } from './keywords/keyword.ts'
import * as logic from './keywords/logic.ts'
import * as object from './keywords/object.ts'
import { dynamicRef, ref } from './keywords/reference.ts'
import { unevaluatedItems, unevaluatedProperties } from './keywords/unevaluated.ts'
import * as value from './keywords/value.ts'
import type { Dialect } from './location.ts'

/** A keyword that only holds names or sub-schemas for others. */
const holder = (shape: Shape, vocabulary: Vocabulary = 'core'): Keyword => ({ shape, vocabulary, rank: 0 })

const shared: Readonly<Record<string, Keyword>> = {
  $id: holder('id'),
  $ref: ref,
  definitions: holder('schemaMap'),
  type: value.type,
  enum: value.enumeration,
  const: value.constant,
  minimum: value.minimum,
  maximum: value.maximum,
  exclusiveMinimum: value.exclusiveMinimum,
  exclusiveMaximum: value.exclusiveMaximum,
  multipleOf: value.multipleOf,
  minLength: value.minLength,
  maxLength: value.maxLength,
  pattern: value.pattern,
  format: value.format,
  minItems: array.minItems,
  maxItems: array.maxItems,
  uniqueItems: array.uniqueItems,
  contains: array.contains,
  minProperties: object.minProperties,
  maxProperties: object.maxProperties,
  required: object.required,
  propertyNames: object.propertyNames,
  dependencies: object.dependencies,
  properties: object.properties,
  patternProperties: object.patternProperties,
  additionalProperties: object.additionalProperties,
  allOf: logic.allOf,
  anyOf: logic.anyOf,
  oneOf: logic.oneOf,
  not: logic.not,
  if: logic.condition,
  then: logic.branch,
  else: logic.branch,
}

const only202012: Readonly<Record<string, Keyword>> = {
  $defs: holder('schemaMap'),
  $anchor: holder('anchor'),
  $dynamicAnchor: holder('anchor'),
  $dynamicRef: dynamicRef,
  prefixItems: array.prefixItems,
  items: array.items,
  minContains: holder('count', 'validation'),
  maxContains: holder('count', 'validation'),
  dependentRequired: object.dependentRequired,
  dependentSchemas: object.dependentSchemas,
  unevaluatedItems,
  unevaluatedProperties,
  contentSchema: holder('schema', 'content'),
}

const onlyDraft07: Readonly<Record<string, Keyword>> = {
  items: array.itemsOrList,
  additionalItems: array.additionalItems,
}

const tableOf = (...parts: readonly Readonly<Record<string, Keyword>>[]): ReadonlyMap<string, Keyword> =>
  new Map(parts.flatMap((part) => Object.entries(part)))

export const draft202012: Dialect = { keywords: tableOf(shared, only202012), legacy: false, assertFormat: false }
export const draft07: Dialect = { keywords: tableOf(shared, onlyDraft07), legacy: true, assertFormat: false }

const vocabularyBase = 'https://json-schema.org/draft/2020-12/vocab/'
const vocabularies: ReadonlyMap<string, Vocabulary | 'annotations'> = new Map([
  ['core', 'core'],
  ['applicator', 'applicator'],
  ['unevaluated', 'unevaluated'],
  ['validation', 'validation'],
  ['format-annotation', 'format'],
  ['format-assertion', 'format'],
  ['content', 'content'],
  ['meta-data', 'annotations'],
])

/** The dialect of a `$schema`, or a sentence saying why there is none. */
export function dialectOf(uri: string, find: (uri: string) => JsonSchema | undefined): Dialect | string {
  const plain = uri.endsWith('#') ? uri.slice(0, -1) : uri
  if (plain === 'https://json-schema.org/draft/2020-12/schema') return draft202012
  if (plain === 'http://json-schema.org/draft-07/schema' || plain === 'https://json-schema.org/draft-07/schema')
    return draft07
  const metaschema = find(plain)
  if (!isObject(metaschema) || !isObject(metaschema.$vocabulary)) {
    return 'must be the URI of 2020-12 or draft-07, or of a known document with $vocabulary'
  }
  return customDialect(metaschema.$vocabulary)
}

/** 2020-12 with only the vocabularies that a metaschema names. */
function customDialect(declared: Readonly<Record<string, unknown>>): Dialect | string {
  const chosen = new Set<string>(['core'])
  for (const [uri, needed] of Object.entries(declared)) {
    const known = uri.startsWith(vocabularyBase) ? vocabularies.get(uri.slice(vocabularyBase.length)) : undefined
    if (known !== undefined) chosen.add(known)
    else if (needed === true) return `needs the vocabulary ${uri}, which is not known here`
  }
  return {
    keywords: new Map([...draft202012.keywords].filter(([, keyword]) => chosen.has(keyword.vocabulary))),
    legacy: false,
    assertFormat: Object.hasOwn(declared, `${vocabularyBase}format-assertion`),
  }
}
