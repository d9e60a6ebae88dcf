import type { Json, JsonObject, JsonSchema } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { flag } from '@gantry/core/internal/options/option'
import { checkOptions, optionsCheck } from '@gantry/core/internal/options/options'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { type AdapterOptions, adapterMembers, type Loss } from './adapter.ts'
import type { ReportLoss } from './clean.ts'
import type { Names } from './names.ts'
import { type Dialect, type Node, plainTop, reduce, resolveLocal } from './reduce.ts'

/** Options of OpenAI's two APIs. */
export interface OpenAiOptions extends AdapterOptions {
  /**
   * Enforces the schema on the model. Every member is then required, and an optional member is nullable; `calls` removes
   * such nulls. A tool whose schema strict mode cannot express is sent without it, with a warning.
   */
  readonly strict?: boolean
}

const optionsShape = optionsCheck<OpenAiOptions>({ members: { ...adapterMembers, strict: flag } })

export function checkOpenAi(name: string, options: OpenAiOptions): void {
  checkOptions(`options of ${name}`, optionsShape, options)
}

interface OpenAiParameters {
  readonly parameters: Node
  readonly strict: boolean
}

/** The parameters of a function, strict when requested and possible. */
export function openAiParameters(schema: JsonSchema, strict: boolean, report: ReportLoss): OpenAiParameters {
  const path = '/inputSchema'
  if (strict) {
    const written = strictSchema(schema, path)
    if (written.ok) {
      for (const loss of written.losses) report(loss)
      return { parameters: written.schema, strict: true }
    }
    const message = `OpenAI strict mode cannot say this schema (${written.path} ${written.reason}); it was sent without.`
    report({ path: written.path, keyword: 'strict', done: 'dropped', message })
  }
  return { parameters: plainTop(schema, path, 'OpenAI', report), strict: false }
}

/** Reverts the changes of strict mode in the arguments of a call. */
export function undoStrict(names: Names, strict: boolean): (args: JsonObject, name: string) => JsonObject {
  return (args, name) => {
    const entry = strict ? names.find(name) : undefined
    return entry === undefined ? args : withoutNulls(args, entry.tool.inputSchema)
  }
}

/** The keywords of OpenAI's strict mode; `finish` closes objects and requires all members. */
const held = new Set([
  'type',
  'enum',
  'const',
  'anyOf',
  '$ref',
  '$defs',
  'definitions',
  'properties',
  'items',
  'description',
  'title',
  'pattern',
  'format',
  'multipleOf',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'minItems',
  'maxItems',
  'required',
  'additionalProperties',
])
const formats: readonly unknown[] = [
  'date-time',
  'time',
  'date',
  'duration',
  'email',
  'hostname',
  'ipv4',
  'ipv6',
  'uuid',
]
const deepest = 10
const mostProperties = 5_000

/** Thrown inside this file only: the schema allows values that strict mode could not. */
class NotStrict extends Error {
  readonly path: string

  constructor(path: string, message: string) {
    super(message)
    this.path = path
  }
}

/** The strict schema, or why there is none: then the original is sent, so that no valid argument is refused. */
type StrictSchema =
  | { readonly ok: true; readonly schema: Node; readonly losses: readonly Omit<Loss, 'tool'>[] }
  | { readonly ok: false; readonly path: string; readonly reason: string }

function strictSchema(schema: JsonSchema, path: string): StrictSchema {
  const losses: Omit<Loss, 'tool'>[] = []
  const counted = { properties: 0 }
  try {
    const written = reduce(schema, path, dialect(path, counted), (loss) => losses.push(loss))
    return { ok: true, schema: written, losses }
  } catch (error) {
    if (!(error instanceof NotStrict)) throw error
    return { ok: false, path: error.path, reason: error.message }
  }
}

function dialect(top: string, counted: { properties: number }): Dialect {
  return {
    format: 'OpenAI strict mode',
    holds: (keyword, value) => held.has(keyword) && (keyword !== 'format' || formats.includes(value)),
    prepare(node, path, report) {
      refuse(node, path, path === top, counted)
      return reworded(node, path, report)
    },
    finish: (node, path, report) => closed(node, path, report),
  }
}

/** Throws for a schema that strict mode cannot express without refusing valid arguments. */
function refuse(node: Node, path: string, isTop: boolean, counted: { properties: number }): void {
  if (isObject(node.properties)) counted.properties += Object.keys(node.properties).length
  if (path.split('/properties/').length > deepest || counted.properties > mostProperties) {
    throw new NotStrict(path, `is nested deeper than ${deepest} levels or has more than ${mostProperties} properties`)
  }
  const open = node.additionalProperties
  if (open !== undefined && open !== false) throw new NotStrict(`${path}/additionalProperties`, 'allows other members')
  for (const keyword of ['patternProperties', 'allOf', 'prefixItems', '$dynamicRef', 'unevaluatedProperties']) {
    if (node[keyword] !== undefined) throw new NotStrict(`${path}/${keyword}`, `needs ${keyword}`)
  }
  if (isTop && (node.anyOf ?? node.oneOf ?? node.$ref) !== undefined) throw new NotStrict(path, 'is not a plain object')
  if (Array.isArray(node.items)) throw new NotStrict(`${path}/items`, 'is a tuple')
  if (!isTop && node.type === 'object' && node.properties === undefined) throw new NotStrict(path, 'is an open object')
}

/** Rewrites `oneOf` as `anyOf`, and drops keywords next to a reference, because strict mode allows none there. */
function reworded(node: Node, path: string, report: ReportLoss): Node {
  if (typeof node.$ref === 'string') {
    for (const keyword of Object.keys(node)) {
      if (keyword === '$ref' || keyword === '$defs' || keyword === 'definitions') continue
      const message = 'OpenAI strict mode allows nothing next to $ref; it was left out.'
      report({ path: `${path}/${escapeSegment(keyword)}`, keyword, done: 'dropped', message })
      delete node[keyword]
    }
  }
  if (node.oneOf === undefined || node.anyOf !== undefined) return node
  const { oneOf, ...rest } = node
  const message = 'OpenAI strict mode does not know oneOf; it was written as anyOf.'
  report({ path: `${path}/oneOf`, keyword: 'oneOf', done: 'widened', message })
  return { ...rest, anyOf: oneOf }
}

/** Closes an object and requires all of its members; optional members become nullable. */
function closed(node: Node, path: string, report: ReportLoss): Node {
  const typed = [node.type, node.enum, node.const, node.anyOf, node.$ref].some((part) => part !== undefined)
  if (!typed) throw new NotStrict(path, 'does not say its type')
  if (!(node.type === 'object' || (Array.isArray(node.type) && node.type.includes('object')))) return node
  const properties = isObject(node.properties) ? node.properties : {}
  const required: readonly unknown[] = Array.isArray(node.required) ? node.required : []
  const unlisted = required.find((name) => !Object.hasOwn(properties, String(name)))
  if (unlisted !== undefined) throw new NotStrict(`${path}/required`, 'requires a member that it does not list')
  const members = Object.entries(properties).map(([name, schema]): readonly [string, unknown] => {
    if (required.includes(name) || !isObject(schema)) return [name, schema]
    const message = 'OpenAI strict mode requires every member; one that may be absent may be null instead.'
    report({ path: `${path}/properties/${escapeSegment(name)}`, keyword: 'required', done: 'rewritten', message })
    return [name, nullable(schema)]
  })
  if (node.additionalProperties === undefined) {
    const message = 'OpenAI strict mode closes every object; members that are not listed cannot be sent.'
    report({ path: `${path}/additionalProperties`, keyword: 'additionalProperties', done: 'narrowed', message })
  }
  const names = members.map(([name]) => name)
  return { ...node, properties: Object.fromEntries(members), required: names, additionalProperties: false }
}

function nullable(schema: Node): Node {
  if (admitsNull(schema)) return schema
  if (typeof schema.type === 'string' && schema.enum === undefined && schema.const === undefined) {
    return { ...schema, type: [schema.type, 'null'] }
  }
  return { anyOf: [schema, { type: 'null' }] }
}

function admitsNull(schema: Node): boolean {
  if (schema.type === 'null' || (Array.isArray(schema.type) && schema.type.includes('null'))) return true
  return Array.isArray(schema.anyOf) && schema.anyOf.some((branch) => isObject(branch) && branch.type === 'null')
}

const deepestArgs = 64

/**
 * Removes the nulls that strict mode makes the model send for optional members. A null is kept where the schema
 * requires the member, accepts null, or does not describe the member.
 */
function withoutNulls(args: JsonObject, schema: JsonSchema): JsonObject {
  return pruneMembers(args, [schema], schema, 0)
}

function prune(value: Json, schemas: readonly unknown[], root: JsonSchema, depth: number): Json {
  if (typeof value !== 'object' || value === null || depth > deepestArgs) return value
  if (Array.isArray(value)) {
    const items = flatten(schemas, root).flatMap(({ items }) => (isObject(items) ? [items] : []))
    return value.map((item) => prune(item, items, root, depth + 1))
  }
  return pruneMembers(value, schemas, root, depth)
}

function pruneMembers(value: JsonObject, schemas: readonly unknown[], root: JsonSchema, depth: number): JsonObject {
  const nodes = flatten(schemas, root)
  const kept: JsonObject = {}
  for (const [name, member] of Object.entries(value)) {
    const inside = nodes.flatMap(({ properties }) =>
      isObject(properties) && Object.hasOwn(properties, name) ? [properties[name]] : [],
    )
    const needed = nodes.some(({ required }) => Array.isArray(required) && required.includes(name))
    const absent = member === null && !needed && inside.length > 0 && !flatten(inside, root).some(takesNull)
    if (!absent) kept[name] = prune(member, inside, root, depth + 1)
  }
  return kept
}

function takesNull(node: Node): boolean {
  const listed = Array.isArray(node.enum) ? node.enum.includes(null) : node.const === null
  const untyped = [node.type, node.enum, node.const, node.anyOf, node.oneOf, node.allOf, node.$ref].every(
    (part) => part === undefined,
  )
  return untyped || listed || node.type === 'null' || (Array.isArray(node.type) && node.type.includes('null'))
}

const mostNodes = 200

/** The schemas that apply to one value, through references and combinations, each once. */
function flatten(schemas: readonly unknown[], root: JsonSchema): Node[] {
  const found = new Set<Node>()
  const open = [...schemas]
  for (let schema = open.pop(); schema !== undefined && found.size < mostNodes; schema = open.pop()) {
    if (!isObject(schema) || found.has(schema)) continue
    found.add(schema)
    if (typeof schema.$ref === 'string') open.push(resolveLocal(schema.$ref, root) ?? false)
    for (const list of [schema.anyOf, schema.oneOf, schema.allOf]) if (Array.isArray(list)) open.push(...list)
  }
  return [...found]
}
