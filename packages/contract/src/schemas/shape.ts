import type { JsonSchema } from '../json.ts'

/** Every document says which dialect it is written in. */
export const dialect = 'https://json-schema.org/draft/2020-12/schema'

type RequiredKey<T> = { [Key in keyof T]-?: object extends Pick<T, Key> ? never : Key }[keyof T]

/** An object schema that follows a type: a member the type lacks, or one the schema lacks, does not compile. */
export interface Shape<T> {
  readonly type: 'object'
  readonly description?: string
  readonly properties: { readonly [Key in keyof Required<T>]: JsonSchema }
  readonly required?: readonly RequiredKey<T>[]
  readonly additionalProperties?: JsonSchema
}

/** A list that must name every member of a union, and nothing else. */
export function every<T extends string>() {
  return <const List extends readonly T[]>(list: List & ([T] extends [List[number]] ? unknown : never)): List => list
}

export const text = { type: 'string' } as const
export const texts = { type: 'array', items: text } as const
export const flag = { type: 'boolean' } as const
export const anyObject = { type: 'object' } as const
/** Any JSON value. */
export const anyJson = true
/** The pattern holds for readers that take `format` as a remark. */
export const time = { type: 'string', format: 'date-time', pattern: '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}' } as const
export const amount = { type: 'number', minimum: 0 } as const
export const count = { type: 'integer', minimum: 0 } as const
export const positive = { type: 'integer', minimum: 1 } as const
export const textMap = { type: 'object', additionalProperties: text } as const
