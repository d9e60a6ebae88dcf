import type { Issue, JsonObject } from '@gantry/contract'
import { nearest } from '@gantry/core/internal/search/near'
import { compileSchema } from '@gantry/json-schema'
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
  let schema: unknown = configSchema
  for (const segment of path) schema = below(asObject(schema), segment)
  const keys = Object.keys(asObject(asObject(schema).properties)).filter((key) => key !== '$schema')
  return path.length === 0 ? ['tools', 'backends', ...keys] : keys
}

function below({ items, properties, additionalProperties }: Members, segment: string): unknown {
  if (items !== undefined && /^\d+$/.test(segment)) return items
  const own = asObject(properties)
  return Object.hasOwn(own, segment) ? own[segment] : additionalProperties
}

type Members = { readonly [key: string]: unknown }

function asObject(value: unknown): Members {
  return typeof value === 'object' && value !== null ? (value as Members) : {}
}
