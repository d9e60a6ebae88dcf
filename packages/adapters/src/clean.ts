import type { JsonSchema } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import type { Loss } from './adapter.ts'

/**
 * Characters that a person does not see but a model reads: controls, format and bidirectional marks, variation
 * selectors, tags (U+E0000…), private use and halves of pairs. Line ends and tabs stay.
 */
const invisible = /(?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Default_Ignorable_Code_Point}\u2028\u2029]/gu

/** A text without what a person does not see. */
export function visible(text: string): string {
  return text.replace(invisible, '')
}

/** Members that are prose for a reader and may be changed without changing what the tool accepts. */
const prose = new Set(['description', 'title', '$comment'])

/** What an object's keys are: keywords of a schema, names of arguments, or whatever the data says. */
type Kind = 'schema' | 'names' | 'data'

const kinds: ReadonlyMap<string, Kind> = new Map([
  ...['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'].map(
    (key) => [key, 'names'] as const,
  ),
  ...['default', 'const', 'enum', 'examples', 'required'].map((key) => [key, 'data'] as const),
])

/** Hears of what was found. */
export type Tell = (loss: Omit<Loss, 'tool'>) => void

/**
 * A copy of a schema to show. Prose is cleaned; a name, an enum value or a default is part of the interface, so it is
 * kept and told of.
 */
export function cleanSchema(schema: JsonSchema, path: string, tell: Tell): JsonSchema {
  return clean(schema, path, '', 'schema', tell) as JsonSchema
}

function clean(value: unknown, path: string, key: string, kind: Kind, tell: Tell): unknown {
  if (typeof value === 'string') return cleanText(value, path, key, kind === 'schema' && prose.has(key), tell)
  if (Array.isArray(value)) return value.map((item, index) => clean(item, `${path}/${index}`, '', kind, tell))
  if (typeof value !== 'object' || value === null) return value
  const copy: { [key: string]: unknown } = {}
  for (const [name, member] of Object.entries(value)) {
    const at = `${path}/${escapeSegment(name)}`
    if (visible(name) !== name) tell({ path: at, keyword: 'name', done: 'kept', message: hidden('A name', 'kept') })
    if (kind === 'schema') copy[name] = clean(member, at, name, kinds.get(name) ?? 'schema', tell)
    else copy[name] = clean(member, at, '', kind === 'names' ? 'schema' : 'data', tell)
  }
  return copy
}

/** One text: prose is cleaned, anything else is kept and told of. */
export function cleanText(text: string, path: string, keyword: string, isProse: boolean, tell: Tell): string {
  const shown = visible(text)
  if (shown === text) return text
  if (isProse) tell({ path, keyword, done: 'dropped', message: hidden('A text', 'taken out') })
  else tell({ path, keyword: keyword === '' ? 'value' : keyword, done: 'kept', message: hidden('A value', 'kept') })
  return isProse ? shown : text
}

function hidden(what: string, done: string): string {
  return `${what} holds characters that a person cannot see; they were ${done}.`
}
