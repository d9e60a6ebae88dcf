import type { JsonSchema } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { escapeSegment, unescapeSegment } from '@gantry/json-schema/internal/pointer'
import type { Done } from './adapter.ts'
import type { ReportLoss } from './clean.ts'

/** A schema under construction, as an object of keywords. */
export type Node = { [keyword: string]: unknown }

/** The part of JSON Schema that a format supports. */
export interface Dialect {
  readonly format: string
  /** Rewrites a node for the format before its keywords are sorted, and reports what that changed. */
  readonly prepare?: (node: Node, path: string, report: ReportLoss) => Node
  /** Whether a keyword may stay as it is; sub-schemas inside it are reduced too. */
  readonly holds: (keyword: string, value: unknown) => boolean
  /** Completes a node after all of its keywords are reduced. */
  readonly finish?: (node: Node, path: string, report: ReportLoss) => Node
}

const schemaMaps = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'])
const schemaLists = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems'])
const oneSchema = new Set([
  'items',
  'additionalProperties',
  'not',
  'if',
  'then',
  'else',
  'contains',
  'propertyNames',
  'unevaluatedItems',
  'unevaluatedProperties',
  'additionalItems',
])

/** Keywords without a rule about values, which need no place in a description. */
const unreported = new Set([
  '$schema',
  '$id',
  '$anchor',
  '$dynamicAnchor',
  '$comment',
  '$vocabulary',
  '$defs',
  'definitions',
  'title',
  'deprecated',
  'readOnly',
  'writeOnly',
  'contentMediaType',
  'contentEncoding',
  'contentSchema',
  'description',
])
const longestNote = 300
const longestNotes = 1_000

/**
 * Writes a schema with what a dialect holds. A keyword that it does not hold becomes a note in the description of its
 * node, or goes when a note would say nothing or be too long; each of them is reported.
 */
export function reduce(schema: JsonSchema | undefined, path: string, dialect: Dialect, report: ReportLoss): Node {
  if (typeof schema !== 'object' || schema === null) return fromBoolean(schema, path, dialect, report)
  const prepared = dialect.prepare?.({ ...schema }, path, report) ?? schema
  const node: Node = {}
  const notes: string[] = []
  for (const [keyword, value] of Object.entries(prepared)) {
    if (value === undefined) continue
    const at = `${path}/${escapeSegment(keyword)}`
    if (dialect.holds(keyword, value)) node[keyword] = inner(keyword, value, at, dialect, report)
    else report({ path: at, keyword, ...lose(keyword, value, notes, dialect.format) })
  }
  const noted = withNotes(node, notes)
  return dialect.finish?.(noted, path, report) ?? noted
}

function fromBoolean(schema: boolean | undefined, path: string, dialect: Dialect, report: ReportLoss): Node {
  if (schema === false) {
    const message = `${dialect.format} cannot say that nothing fits.`
    report({ path, keyword: 'false', done: 'widened', message })
  }
  return dialect.finish?.({}, path, report) ?? {}
}

function lose(keyword: string, value: unknown, notes: string[], format: string): { done: Done; message: string } {
  const note = unreported.has(keyword) || keyword.startsWith('x-') ? undefined : noteOf(keyword, value)
  const remaining = longestNotes - notes.join('; ').length
  if (note === undefined || note.length > remaining) {
    return { done: 'dropped', message: `${format} does not know ${keyword}; it was left out.` }
  }
  notes.push(note)
  return { done: 'described', message: `${format} does not know ${keyword}; the description says it.` }
}

function noteOf(keyword: string, value: unknown): string | undefined {
  const text = JSON.stringify(value)
  return text === undefined || text.length > longestNote ? undefined : `${keyword}: ${text}`
}

function withNotes(node: Node, notes: readonly string[]): Node {
  if (notes.length === 0) return node
  const before = typeof node.description === 'string' && node.description !== '' ? `${node.description} ` : ''
  return { ...node, description: `${before}[${notes.join('; ')}]` }
}

function inner(keyword: string, value: unknown, path: string, dialect: Dialect, report: ReportLoss): unknown {
  const below = (schema: unknown, key: string | number): Node =>
    reduce(isSchema(schema) ? schema : undefined, `${path}/${escapeSegment(String(key))}`, dialect, report)
  if (schemaMaps.has(keyword) && isObject(value)) {
    return Object.fromEntries(Object.entries(value).map(([name, schema]) => [name, below(schema, name)]))
  }
  if (Array.isArray(value) && (schemaLists.has(keyword) || keyword === 'items')) return value.map(below)
  if (oneSchema.has(keyword) && (isObject(value) || keyword !== 'additionalProperties')) {
    return reduce(isSchema(value) ? value : undefined, path, dialect, report)
  }
  return structuredClone(value)
}

const isSchema = (value: unknown): value is JsonSchema => typeof value === 'boolean' || isObject(value)

/** Where a boolean has always been allowed, so that every reader takes it. */
const booleanKeywords = new Set([
  'additionalProperties',
  'additionalItems',
  'unevaluatedItems',
  'unevaluatedProperties',
])

/**
 * A copy in which every boolean schema is the object that means the same: `{}` for true, `{ "not": {} }` for false.
 * Clients of MCP built on SDK 1.x want an object for each property, and lose the whole list for one that is none.
 */
export function withObjectSchemas(schema: JsonSchema): Node {
  if (schema === true) return {}
  if (schema === false) return { not: {} }
  const below = (value: unknown): unknown => (isSchema(value) ? withObjectSchemas(value) : structuredClone(value))
  const node: Node = {}
  for (const [keyword, value] of Object.entries(schema)) {
    if (schemaMaps.has(keyword) && isObject(value)) {
      node[keyword] = Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, below(inner)]))
    } else if (Array.isArray(value) && (schemaLists.has(keyword) || keyword === 'items')) {
      node[keyword] = value.map(below)
    } else if (oneSchema.has(keyword) && !(typeof value === 'boolean' && booleanKeywords.has(keyword))) {
      node[keyword] = below(value)
    } else node[keyword] = structuredClone(value)
  }
  return node
}

/** Combinations at the top of the parameters are refused by OpenAI and Anthropic, though not deeper inside. */
const notOnTop = new Set(['allOf', 'anyOf', 'oneOf', 'not', 'enum', 'const', 'if', 'then', 'else'])

/** Any JSON Schema, as long as its top is a plain object. */
export function plainTop(schema: JsonSchema, path: string, format: string, report: ReportLoss): Node {
  const node: Node = {}
  const notes: string[] = []
  for (const [keyword, value] of Object.entries(schema)) {
    if (!notOnTop.has(keyword)) node[keyword] = structuredClone(value)
    else
      report({
        path: `${path}/${keyword}`,
        keyword,
        ...lose(keyword, value, notes, `${format}, at the top of a tool,`),
      })
  }
  return withNotes(node, notes)
}

/** The schema that a reference within its own document points to (`#` or `#/…`), or undefined for any other. */
export function resolveLocal(ref: string, root: JsonSchema): unknown {
  if (ref === '#') return root
  if (!ref.startsWith('#/')) return undefined
  let at: unknown = root
  for (const segment of ref.slice(2).split('/')) {
    const key = keyOf(segment)
    if (key === undefined || typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined
    at = Reflect.get(at, key)
  }
  return at
}

function keyOf(segment: string): string | undefined {
  try {
    return unescapeSegment(decodeURIComponent(segment))
  } catch {
    return undefined
  }
}
