import type { Issue, JsonObject, JsonSchema } from '@gantry/contract'
import { nearest } from '@gantry/core'
import { compileSchema } from '@gantry/core/schema'
import { configSchema } from './schema.ts'

/** All that is wrong with the plain part of a configuration, unknown keys with the nearest known one. */
export function configIssues(document: JsonObject): Issue[] {
  return compileSchema(configSchema).issues(document).map(withSuggestion)
}

function withSuggestion(issue: Issue): Issue {
  if (issue.keyword !== 'additionalProperties') return issue
  const segments = issue.path.split('/').slice(1)
  const key = segments.at(-1) ?? ''
  const known = knownKeys(segments.slice(0, -1))
  const [near] = nearest(key, known, { limit: 1 })
  const hint = near === undefined ? `known keys: ${known.join(', ')}` : `did you mean ${near}?`
  return { ...issue, message: `is not a known key; ${hint}` }
}

/** The keys that our schema knows at a place, found by walking it alongside the path. */
function knownKeys(path: readonly string[]): readonly string[] {
  let schema: JsonSchema | undefined = configSchema
  for (const segment of path) schema = /^\d+$/.test(segment) ? member(schema, 'items') : property(schema, segment)
  const keys = Object.keys(asObject(asObject(schema).properties)).filter((key) => key !== '$schema')
  return path.length === 0 ? ['tools', 'backends', ...keys] : keys
}

function property(schema: JsonSchema | undefined, name: string): JsonSchema | undefined {
  return asObject(asObject(schema).properties)[name] as JsonSchema | undefined
}

function member(schema: JsonSchema | undefined, keyword: string): JsonSchema | undefined {
  return asObject(schema)[keyword] as JsonSchema | undefined
}

function asObject(value: unknown): { readonly [key: string]: unknown } {
  return typeof value === 'object' && value !== null ? (value as { [key: string]: unknown }) : {}
}
