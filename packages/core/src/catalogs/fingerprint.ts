import type { Tool } from '@gantry/contract'
import { sha256 } from '../json/sha256.ts'

/**
 * The digest of one version: everything a caller relies on when it builds a call.
 * How the tool runs is left out, so that moving a tool to another backend does not make its callers stale.
 */
export function toolDigest(tool: Tool): string {
  const { namespace, name, version, title, description, inputSchema, outputSchema, annotations } = tool
  const seen = { namespace, name, version, title, description, inputSchema, outputSchema, annotations }
  return sha256(JSON.stringify(sorted(seen)))
}

/**
 * The digest of what a call of one version depends on: its name, its version and its schemas, without titles, descriptions
 * and examples. A call that was admitted under it runs wherever it is the same.
 */
export function callDigest(tool: Tool): string {
  const { namespace, name, version, inputSchema, outputSchema } = tool
  const bare = { inputSchema: withoutTexts(inputSchema), outputSchema: withoutTexts(outputSchema) }
  return sha256(JSON.stringify(sorted({ namespace, name, version, ...bare })))
}

/** Keywords that say something to a reader and nothing to a validator. */
const texts: ReadonlySet<string> = new Set(['title', 'description', '$comment', 'examples'])
/** Keywords whose members are names of the author's choice, so that none of them is a keyword. */
const named: ReadonlySet<string> = new Set([
  ...['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependentRequired'],
  'dependencies',
])
/** Keywords whose value is data. */
const data: ReadonlySet<string> = new Set(['const', 'enum', 'default', 'required'])

function withoutTexts(schema: unknown): unknown {
  if (typeof schema !== 'object' || schema === null) return schema
  if (Array.isArray(schema)) return schema.map(withoutTexts)
  const kept = Object.entries(schema).filter(([key]) => !texts.has(key))
  return Object.fromEntries(kept.map(([key, value]) => [key, data.has(key) ? value : bareMember(key, value)]))
}

function bareMember(key: string, value: unknown): unknown {
  if (!named.has(key) || typeof value !== 'object' || value === null) return withoutTexts(value)
  return Object.fromEntries(Object.entries(value).map(([name, schema]) => [name, withoutTexts(schema)]))
}

/**
 * The value with every object's keys in order, so that native `JSON.stringify` gives equal values equal text.
 * This takes a third of the time of writing the text piece by piece.
 */
function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(sorted)
  const record = value as Readonly<Record<string, unknown>>
  const copy: Record<string, unknown> = {}
  for (const key of ordered(Object.keys(record))) {
    const member = record[key]
    copy[key] = typeof member === 'object' ? sorted(member) : member
  }
  return copy
}

/** Sorts in place; for the few keys of most objects an insertion beats the built-in sort. */
function ordered(keys: string[]): string[] {
  if (keys.length > 24) return keys.sort()
  for (let index = 1; index < keys.length; index += 1) {
    const key = keys[index] ?? ''
    let at = index - 1
    for (; at >= 0 && (keys[at] ?? '') > key; at -= 1) keys[at + 1] = keys[at] ?? ''
    keys[at + 1] = key
  }
  return keys
}
