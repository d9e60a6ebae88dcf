import type { JsonSchema } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import type { Loss } from './adapter.ts'

/**
 * Characters that a person does not see but a model reads: controls, format and bidirectional marks, variation
 * selectors, tags (U+E0000…), private use and halves of pairs. Line ends and tabs stay.
 */
const invisible = /(?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Default_Ignorable_Code_Point}\u2028\u2029]/gu

/** A text without invisible characters. */
export function visible(text: string): string {
  return text.replace(invisible, '')
}

/** Members that are prose for a reader and may be changed without changing what the tool accepts. */
const prose = new Set(['description', 'title', '$comment'])

/** The meaning of an object's keys: schema keywords, argument names, or data. */
type Kind = 'schema' | 'names' | 'data'

const kinds: ReadonlyMap<string, Kind> = new Map([
  ...['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'].map(
    (key) => [key, 'names'] as const,
  ),
  ...['default', 'const', 'enum', 'examples', 'required'].map((key) => [key, 'data'] as const),
])

/** Receives each finding. */
export type ReportLoss = (loss: Omit<Loss, 'tool'>) => void

/**
 * A copy of a schema to show. Prose is cleaned; a name, an enum value or a default is part of the interface, so it is
 * kept and reported.
 */
export function cleanSchema(schema: JsonSchema, path: string, report: ReportLoss): JsonSchema {
  return clean(schema, path, '', 'schema', report) as JsonSchema
}

function clean(value: unknown, path: string, key: string, kind: Kind, report: ReportLoss): unknown {
  if (typeof value === 'string') return cleanText(value, path, key, kind === 'schema' && prose.has(key), report)
  if (Array.isArray(value)) return value.map((item, index) => clean(item, `${path}/${index}`, '', kind, report))
  if (typeof value !== 'object' || value === null) return value
  const copy: { [key: string]: unknown } = {}
  for (const [name, member] of Object.entries(value)) {
    const at = `${path}/${escapeSegment(name)}`
    if (visible(name) !== name) report({ path: at, keyword: 'name', done: 'kept', message: hidden('A name', 'kept') })
    if (kind === 'schema') copy[name] = clean(member, at, name, kinds.get(name) ?? 'schema', report)
    else copy[name] = clean(member, at, '', kind === 'names' ? 'schema' : 'data', report)
  }
  return copy
}

/** One text: prose is cleaned, anything else is kept and reported. */
export function cleanText(text: string, path: string, keyword: string, isProse: boolean, report: ReportLoss): string {
  const shown = visible(text)
  if (shown === text) return text
  if (isProse) report({ path, keyword, done: 'dropped', message: hidden('A text', 'taken out') })
  else report({ path, keyword: keyword === '' ? 'value' : keyword, done: 'kept', message: hidden('A value', 'kept') })
  return isProse ? shown : text
}

function hidden(what: string, done: string): string {
  return `${what} holds characters that a person cannot see; they were ${done}.`
}
