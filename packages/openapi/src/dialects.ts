import type { Json, JsonObject } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { Source } from './source.ts'

/** The kind of value of each keyword; other keywords are dropped. */
export type KeywordKind = 'value' | 'note' | 'schema' | 'list' | 'map'

const kinds: { readonly [Kind in KeywordKind]: readonly string[] } = {
  value: [
    'type',
    'enum',
    'const',
    'format',
    'pattern',
    'required',
    'multipleOf',
    'uniqueItems',
    'dependentRequired',
    'minimum',
    'maximum',
    'exclusiveMinimum',
    'exclusiveMaximum',
    'minLength',
    'maxLength',
    'minItems',
    'maxItems',
    'minContains',
    'maxContains',
    'minProperties',
    'maxProperties',
    'contentEncoding',
    'contentMediaType',
    'deprecated',
  ],
  note: ['title', 'description'],
  schema: [
    'items',
    'additionalProperties',
    'not',
    'contains',
    'propertyNames',
    'if',
    'then',
    'else',
    'unevaluatedItems',
    'unevaluatedProperties',
    'contentSchema',
  ],
  list: ['allOf', 'anyOf', 'oneOf', 'prefixItems'],
  map: ['properties', 'patternProperties', 'dependentSchemas'],
}

export const keywordKinds: ReadonlyMap<string, KeywordKind> = new Map(
  Object.entries(kinds).flatMap(([kind, names]) => names.map((name) => [name, kind as KeywordKind] as const)),
)

/** Keywords that apply other schemas to the same value. */
const compositions = ['$ref', 'allOf', 'anyOf', 'oneOf', 'not', 'if'] as const

/** The dialect of a schema; the output is always 2020-12. */
export type Dialect = '3.0' | '2020-12' | 'draft-07'

/** A schema under construction. */
export type Written = { [keyword: string]: unknown }

/** The dialect that a `$schema` or a `jsonSchemaDialect` names; undefined when it is another. */
export function dialectNamed(uri: Json): Dialect | undefined {
  if (typeof uri !== 'string') return undefined
  if (/^https?:\/\/json-schema\.org\/draft-07\/schema#?$/.test(uri)) return 'draft-07'
  const usual = /^https:\/\/(?:json-schema\.org\/draft\/2020-12\/schema|spec\.openapis\.org\/oas\/3\.1\/dialect\/.+)$/
  return usual.test(uri.replace(/#$/, '')) ? '2020-12' : undefined
}

/** The dialect of schemas that name none. */
export function defaultDialect({ root, version }: Source): Dialect {
  if (version === '3.0') return '3.0'
  return root.jsonSchemaDialect === undefined ? '2020-12' : (dialectNamed(root.jsonSchemaDialect) ?? '2020-12')
}

/** Dialects that ignore keywords next to a `$ref`. */
export function refStandsAlone(dialect: Dialect): boolean {
  return dialect !== '2020-12'
}

/** Converts the boolean `exclusiveMinimum` and `exclusiveMaximum` of 3.0, which some documents of 3.1 still use. */
export function raiseExclusive(written: Written): void {
  for (const [exclusive, limit] of [
    ['exclusiveMinimum', 'minimum'],
    ['exclusiveMaximum', 'maximum'],
  ] as const) {
    const flag = written[exclusive]
    if (typeof flag !== 'boolean') continue
    delete written[exclusive]
    if (!flag || written[limit] === undefined) continue
    written[exclusive] = written[limit]
    delete written[limit]
  }
}

/**
 * The schema with null allowed. With applied subschemas, null is an alternative to the whole schema, because each of them
 * would refuse it. Authors mean this, although 3.0 defines `nullable` only next to `type`.
 */
export function withNull(written: Written): Written {
  if (compositions.some((keyword) => Object.hasOwn(written, keyword))) {
    const { title, description, ...rest } = written
    const notes = { ...(title === undefined ? {} : { title }), ...(description === undefined ? {} : { description }) }
    return { ...notes, anyOf: [rest, { type: 'null' }] }
  }
  const values = written.enum
  return {
    ...written,
    ...(typeof written.type === 'string' ? { type: [written.type, 'null'] } : {}),
    ...(Array.isArray(values) && !values.includes(null) ? { enum: [...values, null] } : {}),
  }
}

/** Renames keywords of draft-07 to those of 2020-12 before translation. */
export function modernised(schema: JsonObject): JsonObject {
  const { items, additionalItems, dependencies, ...rest } = schema
  const lists: JsonObject = {}
  const schemas: JsonObject = {}
  if (isObject(dependencies)) {
    for (const [name, needed] of Object.entries(dependencies)) (Array.isArray(needed) ? lists : schemas)[name] = needed
  }
  const tuple = Array.isArray(items)
  return {
    ...rest,
    ...(tuple ? { prefixItems: items } : items === undefined ? {} : { items }),
    ...(tuple && additionalItems !== undefined ? { items: additionalItems } : {}),
    ...(Object.keys(lists).length > 0 ? { dependentRequired: lists } : {}),
    ...(Object.keys(schemas).length > 0 ? { dependentSchemas: schemas } : {}),
  }
}
