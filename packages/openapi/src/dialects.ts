import type { Json, JsonObject } from '@gantry/contract'
import { isRecord, type Source } from './source.ts'

/** What the value of a keyword is made of; a keyword that is not here is dropped. */
export type KeywordKind = 'value' | 'note' | 'schema' | 'list' | 'map'

const kinds: { readonly [Kind in KeywordKind]: readonly string[] } = {
  value: [
    ...['type', 'enum', 'const', 'format', 'pattern', 'required', 'multipleOf', 'uniqueItems', 'dependentRequired'],
    ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'minLength', 'maxLength'],
    ...['minItems', 'maxItems', 'minContains', 'maxContains', 'minProperties', 'maxProperties'],
    ...['contentEncoding', 'contentMediaType', 'deprecated'],
  ],
  note: ['title', 'description'],
  schema: [
    ...['items', 'additionalProperties', 'not', 'contains', 'propertyNames', 'if', 'then', 'else'],
    ...['unevaluatedItems', 'unevaluatedProperties', 'contentSchema'],
  ],
  list: ['allOf', 'anyOf', 'oneOf', 'prefixItems'],
  map: ['properties', 'patternProperties', 'dependentSchemas'],
}

export const keywordKinds: ReadonlyMap<string, KeywordKind> = new Map(
  Object.entries(kinds).flatMap(([kind, names]) => names.map((name) => [name, kind as KeywordKind] as const)),
)

/** Keywords that apply other schemas to the same value. */
const compositions = ['$ref', 'allOf', 'anyOf', 'oneOf', 'not', 'if'] as const

/** How the keywords of a schema are read; all of them are written as 2020-12. */
export type Dialect = '3.0' | '2020-12' | 'draft-07'

/** A schema that is being written. */
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

/** In these dialects nothing that stands beside a `$ref` counts. */
export function refStandsAlone(dialect: Dialect): boolean {
  return dialect !== '2020-12'
}

/** A number for the limit that 3.0 writes as true beside `minimum`, and that documents of 3.1 still have here and there. */
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
 * The schema with null allowed. Where other schemas are applied as well, null stands beside the whole, because each of
 * them would refuse it; that is what authors mean, though 3.0 gives `nullable` a meaning only beside `type`.
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

/** Keywords of draft-07 under the names they have in 2020-12, before they are translated. */
export function modernised(schema: JsonObject): JsonObject {
  const { items, additionalItems, dependencies, ...rest } = schema
  const lists: JsonObject = {}
  const schemas: JsonObject = {}
  if (isRecord(dependencies)) {
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
