import { type Issue, type Json, type JsonObject, type JsonSchema, ToolError } from '@gantry/contract'
import { nearest } from '@gantry/core/internal/search/near'
import { compileSchema } from '@gantry/json-schema'

/** Looking for a name that was meant takes time, and nobody reads more. */
const mostIssues = 20
/** Further characters of a name say nothing about what was meant. */
const longestName = 64

/** Refuses an object with members that nobody reads, or that are not what they should be. */
export type MemberCheck = (value: JsonObject) => void

/** Compiles the check once; what a schema refers to is left to whoever reads it, who knows more about it. */
export function memberCheck(
  what: string,
  members: { readonly [name: string]: JsonSchema },
  required: readonly string[] = [],
): MemberCheck {
  const known = Object.keys(members)
  const validator = compileSchema({ type: 'object', properties: withoutReferences(members), required })
  return (value) => {
    const unknown = Object.keys(value).filter((name) => !known.includes(name))
    const strange = unknown.slice(0, mostIssues).map((name) => unknownMember(name.slice(0, longestName), known))
    const issues = [...strange, ...validator.issues(value)].slice(0, mostIssues)
    if (issues.length === 0) return
    const text = issues.map(({ path, message }) => `${path === '' ? 'it' : path} ${message}`).join('; ')
    throw new ToolError('PAYLOAD_INVALID', `${what} cannot be taken: ${text.slice(0, 2_000)}.`, { details: { issues } })
  }
}

/** The object that a body or a query must be. */
export function asObject(what: string, value: Json): JsonObject {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw new ToolError('PAYLOAD_INVALID', `${what} must be a JSON object.`, {
    details: { issues: [{ path: '', message: 'must be an object' }] },
  })
}

function unknownMember(name: string, known: readonly string[]): Issue {
  const [near] = nearest(name, known, { limit: 1 })
  const hint = near === undefined ? '' : ` (did you mean "${near}"?)`
  const pointer = name.replaceAll('~', '~0').replaceAll('/', '~1')
  return { path: `/${pointer}`, message: `is not known here${hint}` }
}

function withoutReferences(members: { readonly [name: string]: JsonSchema }): { [name: string]: JsonSchema } {
  const open = (schema: unknown): unknown => {
    if (Array.isArray(schema)) return schema.map(open)
    if (typeof schema !== 'object' || schema === null) return schema
    if ('$ref' in schema) return true
    return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, open(value)]))
  }
  return open(members) as { [name: string]: JsonSchema }
}
