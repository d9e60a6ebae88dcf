import type { JsonObject, JsonSchema } from '@gantry/contract'

/**
 * A query as JSON: texts become the numbers that the schemas ask for, as far as they are numbers. What is empty is absent,
 * unless its schema says that it may be empty.
 */
export function readQuery(given: unknown, members: { readonly [name: string]: JsonSchema }): JsonObject {
  const query: JsonObject = {}
  for (const [name, value] of Object.entries(given as JsonObject)) {
    const schema = Object.hasOwn(members, name) ? members[name] : undefined
    const { type, minLength } = typeof schema === 'object' ? schema : {}
    if (value === '' && minLength !== 0) continue
    const number = type === 'integer' && typeof value === 'string' && /^[0-9]{1,16}$/.test(value)
    Object.defineProperty(query, name, { value: number ? Number(value) : value, enumerable: true })
  }
  return query
}
