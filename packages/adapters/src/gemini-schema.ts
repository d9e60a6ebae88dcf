import type { JsonSchema } from '@gantry/contract'
import type { Done } from './adapter.ts'
import type { ReportLoss } from './clean.ts'
import { type Dialect, isNode, type Node, reduce, resolveLocal } from './reduce.ts'

/** The fields of Gemini's Schema object, which follows OpenAPI 3.0. */
const held = new Set([
  ...['type', 'format', 'title', 'description', 'nullable', 'enum', 'items', 'minItems', 'maxItems', 'properties'],
  ...['required', 'minProperties', 'maxProperties', 'minimum', 'maximum', 'minLength', 'maxLength', 'pattern'],
  ...['anyOf', 'default'],
])
const formats: readonly unknown[] = ['date-time', 'int32', 'int64', 'float', 'double']
const types: ReadonlyMap<unknown, string> = new Map(
  ['string', 'number', 'integer', 'boolean', 'array', 'object', 'null'].map((type) => [type, type.toUpperCase()]),
)

/** References are written out, and a few small ones can stand for a schema without end. */
const mostNodes = 2_000
const deepest = 40

/** A schema as Gemini's `parameters` take it; tells everything that JSON Schema says and OpenAPI 3.0 does not. */
export function geminiSchema(schema: JsonSchema, path: string, report: ReportLoss): Node {
  let left = mostNodes
  const open = new Map<string, string>()
  const dialect: Dialect = {
    format: 'Gemini',
    holds(keyword, value) {
      if (keyword === 'format') return formats.includes(value)
      if (keyword === 'enum') return isTextList(value)
      return held.has(keyword)
    },
    prepare(node, at, report) {
      left -= 1
      for (const [ref, from] of open) if (at !== from && !at.startsWith(`${from}/`)) open.delete(ref)
      const change = (keyword: string, done: Done, message: string): void =>
        report({ path: `${at}/${keyword}`, keyword, done, message })
      const written = typeof node.$ref === 'string' ? inlined(node, at, schema, open, left, change) : node
      return alternatives(enumerated(typed(written, change), change), change)
    },
    finish: inCapitals,
  }
  return reduce(schema, path, dialect, report)
}

type Change = (keyword: string, done: Done, message: string) => void

/** Puts what a reference means in its place, unless that would never end. */
function inlined(
  node: Node,
  path: string,
  root: JsonSchema,
  open: Map<string, string>,
  left: number,
  change: Change,
): Node {
  const { $ref, ...rest } = node
  const target = resolveLocal(String($ref), root)
  const endless = open.has(String($ref)) || left <= 0 || path.split('/').length > deepest
  if (!isNode(target) || endless) {
    change('$ref', 'widened', 'Gemini knows no references and this one cannot be written out; anything may stand here.')
    return rest
  }
  open.set(String($ref), path)
  change('$ref', 'rewritten', 'Gemini knows no references; what it refers to stands in its place.')
  const { $defs: _defs, definitions: _definitions, ...meaning } = target
  const merged: Node = { ...meaning, ...rest }
  return typeof merged.$ref === 'string' ? inlined(merged, path, root, open, left - 1, change) : merged
}

/** A list of types is one type, perhaps nullable, or alternatives. */
function typed(node: Node, change: Change): Node {
  if (!Array.isArray(node.type)) return node
  const { type: _type, ...rest } = node
  const named = node.type.filter((type) => type !== 'null')
  const nullable = named.length < node.type.length ? { nullable: true } : {}
  change('type', 'rewritten', 'Gemini takes one type; the others are said by nullable or anyOf.')
  if (named.length === 1) return { ...rest, type: named[0], ...nullable }
  if (named.length === 0) return { ...rest, type: 'null' }
  if (rest.anyOf !== undefined || rest.oneOf !== undefined) return { ...rest, ...nullable }
  return { ...rest, anyOf: named.map((type) => ({ type })), ...nullable }
}

/** Gemini lists texts only: a constant is a list of one, and a null among them is said by `nullable`. */
function enumerated(node: Node, change: Change): Node {
  if (node.enum === undefined && typeof node.const === 'string') {
    const { const: constant, ...rest } = node
    change('const', 'rewritten', 'Gemini knows no const; it is an enum of one.')
    return { type: 'string', ...rest, enum: [constant] }
  }
  if (!Array.isArray(node.enum)) return node
  const texts = node.enum.filter((value) => value !== null)
  if (!isTextList(texts)) return node
  // A null that is not among the values fits nothing, whatever the type says.
  const { nullable: _nullable, ...listed } = node
  if (texts.length === node.enum.length) return { type: 'string', ...listed }
  change('enum', 'rewritten', 'Gemini says null among the values as nullable.')
  return { type: 'string', ...node, enum: texts, nullable: true }
}

function isTextList(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === 'string')
}

/** `oneOf` is said as `anyOf`, and a null among the alternatives as `nullable`. */
function alternatives(node: Node, change: Change): Node {
  const { oneOf, ...others } = node
  const isOneOf = Array.isArray(oneOf) && node.anyOf === undefined
  if (isOneOf) change('oneOf', 'widened', 'Gemini does not know oneOf; it was written as anyOf.')
  const list: unknown = isOneOf ? oneOf : node.anyOf
  if (!Array.isArray(list)) return node
  const { anyOf: _anyOf, ...rest } = isOneOf ? others : node
  const branches = list.filter((branch) => !(isNode(branch) && branch.type === 'null'))
  if (branches.length === list.length) return { ...rest, anyOf: list }
  change('anyOf', 'rewritten', 'Gemini says null among alternatives as nullable.')
  const [only, ...more] = branches
  if (only === undefined) return { type: 'null', ...rest, nullable: true }
  const fits = isNode(only) && Object.keys(only).every((keyword) => !Object.hasOwn(rest, keyword))
  if (more.length === 0 && fits) return { ...only, ...rest, nullable: true }
  return { ...rest, anyOf: branches, nullable: true }
}

/** Types in capitals, lists with a schema for their items, and nothing required that is not listed. */
function inCapitals(node: Node, path: string, report: ReportLoss): Node {
  const type = typeof node.type === 'string' ? types.get(node.type) : impliedType(node)
  const { type: _type, required, ...rest } = node
  const known = isNode(rest.properties) ? rest.properties : {}
  const names = Array.isArray(required) ? required.filter((name) => Object.hasOwn(known, String(name))) : []
  if (Array.isArray(required) && names.length < required.length) {
    const message = 'Gemini requires listed properties only; the others were left out.'
    report({ path: `${path}/required`, keyword: 'required', done: 'widened', message })
  }
  return {
    ...(type === undefined ? {} : { type }),
    ...(type === 'ARRAY' ? { items: {} } : {}),
    ...rest,
    ...(Array.isArray(required) ? { required: names } : {}),
  }
}

function impliedType(node: Node): string | undefined {
  if (node.properties !== undefined) return 'OBJECT'
  return node.items === undefined ? undefined : 'ARRAY'
}

/** A Gemini schema as JSON Schema; the other way round, and as tolerant as the other side is strict. */
export function fromGemini(schema: unknown, path: string, report: ReportLoss): JsonSchema {
  if (!isNode(schema)) return {}
  const dialect: Dialect = {
    format: 'JSON Schema',
    holds: (keyword) => held.has(keyword) || keyword === 'examples',
    prepare(node, at, report) {
      const { example, propertyOrdering, nullable, type, ...rest } = node
      if (propertyOrdering !== undefined) {
        const message = 'JSON Schema has no order of properties; it was left out.'
        report({ path: `${at}/propertyOrdering`, keyword: 'propertyOrdering', done: 'dropped', message })
      }
      const lower = typeof type === 'string' ? { type: type.toLowerCase() } : {}
      const plain: Node = { ...lower, ...rest, ...(example === undefined ? {} : { examples: [example] }) }
      return nullable === true ? orNull(plain) : plain
    },
  }
  return reduce(schema, path, dialect, report)
}

function orNull(node: Node): Node {
  const listed = Array.isArray(node.enum) ? { enum: [...node.enum, null] } : {}
  if (typeof node.type === 'string') return { ...node, ...listed, type: [node.type, 'null'] }
  if (Array.isArray(node.anyOf)) return { ...node, anyOf: [...node.anyOf, { type: 'null' }] }
  return { ...node, ...listed }
}
