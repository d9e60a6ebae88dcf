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
export const compositions = ['$ref', 'allOf', 'anyOf', 'oneOf', 'not', 'if'] as const
