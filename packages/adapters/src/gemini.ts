import { type Json, type JsonSchema, type Result, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { checkOptions, optionsCheck } from '@gantry/core/internal/options/options'
import { type Adapter, type AdapterOptions, adapterMembers, type Done, defaultMaxChars } from './adapter.ts'
import { listOf, member, readCalls, valueOnly } from './calls.ts'
import type { ReportLoss } from './clean.ts'
import { type Dialect, type Node, reduce, resolveLocal } from './reduce.ts'
import { render, textOf } from './render.ts'
import { readTools, writeTools } from './tools.ts'

interface GeminiFunction {
  name: string
  description: string
  /** Absent for a function without parameters. */
  parameters?: Node
}

/** A tool of the Gemini API: one list of functions. */
interface GeminiTool {
  functionDeclarations: GeminiFunction[]
}

/** The result of one call; all results of one turn are the parts of one content, as many as there were calls. */
interface GeminiResult {
  functionResponse: {
    id?: string
    name: string
    response: { output: Json } | { error: string }
    parts?: { inlineData: { mimeType: string; data: string } }[]
  }
}

const imageTypes: readonly unknown[] = ['image/png', 'image/jpeg', 'image/webp']
const argumentName = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/

const optionsShape = optionsCheck<AdapterOptions>({ members: adapterMembers })

/** Gemini's generateContent: `calls` takes a content of the model, or its parts. */
export function gemini(options: AdapterOptions = {}): Adapter<GeminiTool[], GeminiResult> {
  checkOptions('options of gemini', optionsShape, options)
  const { clean = true, maxChars = defaultMaxChars } = options
  return {
    format: 'gemini',
    tools(entries) {
      const writing = { format: 'Gemini', clean, fields: [] }
      const written = writeTools(entries, writing, ({ name, description, inputSchema }, report): GeminiFunction => {
        const parameters = geminiSchema(inputSchema, '/inputSchema', report)
        const properties = isObject(parameters.properties) ? Object.keys(parameters.properties) : []
        for (const argument of properties) {
          if (argumentName.test(argument)) continue
          const message = 'Gemini may refuse a name that is not made of 1 to 64 letters, digits and `_`.'
          report({ path: '/inputSchema/properties', keyword: 'name', done: 'kept', message })
        }
        return properties.length === 0
          ? withoutParameters(name, description, parameters, report)
          : { name, description, parameters }
      })
      return { ...written, tools: [{ functionDeclarations: [...written.tools] }] }
    },
    read: (tools, how = {}) =>
      readTools(functionsOf(tools), how, clean, ({ name, description, parameters, response, ...rest }, report) => ({
        name,
        description,
        inputSchema: parameters === undefined ? {} : fromGemini(parameters, '/parameters', report),
        ...(response === undefined ? {} : { outputSchema: fromGemini(response, '/response', report) }),
        rest,
      })),
    calls: (message, names) =>
      readCalls(
        () =>
          partsOf(message)
            .map((part) => member(part, 'functionCall'))
            .filter((call) => call !== undefined)
            .map((call) => ({
              id: member(call, 'id'),
              name: member(call, 'name'),
              args: valueOnly(member(call, 'args')),
            })),
        names,
        false,
      ),
    result({ callId, name }, outcome) {
      const { isError, parts } = render(outcome, {
        maxChars,
        holds: (part) => part.type === 'image' && imageTypes.includes(part.mimeType),
      })
      const images = parts.flatMap((part) =>
        part.type === 'image' ? [{ inlineData: { mimeType: part.mimeType, data: part.data } }] : [],
      )
      const text = textOf(parts)
      return {
        functionResponse: {
          ...(callId === undefined ? {} : { id: callId }),
          name,
          response: isError ? { error: text } : { output: outputOf(outcome, text) },
          ...(images.length === 0 ? {} : { parts: images }),
        },
      }
    },
  }
}

/** The API refuses an object without properties, so that a function with none has no parameters at all. */
function withoutParameters(name: string, description: string, parameters: Node, report: ReportLoss): GeminiFunction {
  const { type: _type, description: note, ...lost } = parameters
  for (const keyword of Object.keys(lost)) {
    const message = `Gemini takes no parameters without properties; ${keyword} was left out.`
    report({ path: `/inputSchema/${keyword}`, keyword, done: 'dropped', message })
  }
  if (note === undefined) return { name, description }
  const message = 'Gemini takes no parameters without properties; the description says it.'
  report({ path: '/inputSchema/description', keyword: 'description', done: 'described', message })
  return { name, description: `${description}\n${note}` }
}

/** The output itself where its text was not cut or written by the tool. */
function outputOf(outcome: Result | ToolError, text: string): Json {
  const output = ToolError.is(outcome) ? null : outcome.output
  return JSON.stringify(output) === text ? output : text
}

function functionsOf(tools: unknown): unknown {
  if (!Array.isArray(tools)) return tools
  return tools.flatMap((tool): unknown[] => {
    const list = member(tool, 'functionDeclarations')
    return Array.isArray(list) ? list : [tool]
  })
}

function partsOf(message: unknown): readonly unknown[] {
  if (Array.isArray(message)) return message
  const parts = member(message, 'parts')
  return parts === undefined ? [] : listOf(parts, 'parts')
}

/** The fields of Gemini's Schema object, which follows OpenAPI 3.0. */
const held = new Set([
  'type',
  'format',
  'title',
  'description',
  'nullable',
  'enum',
  'items',
  'minItems',
  'maxItems',
  'properties',
  'required',
  'minProperties',
  'maxProperties',
  'minimum',
  'maximum',
  'minLength',
  'maxLength',
  'pattern',
  'anyOf',
  'default',
])
const formats: readonly unknown[] = ['date-time', 'int32', 'int64', 'float', 'double']
const types: ReadonlyMap<unknown, string> = new Map(
  ['string', 'number', 'integer', 'boolean', 'array', 'object', 'null'].map((type) => [type, type.toUpperCase()]),
)

/** The size limit of inlined references, because a few small ones can expand without bound. */
const mostNodes = 2_000
const deepest = 40

/** A schema for Gemini's `parameters`; reports everything that OpenAPI 3.0 cannot express. */
function geminiSchema(schema: JsonSchema, path: string, report: ReportLoss): Node {
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

/** Inlines a reference, unless it is recursive. */
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
  if (!isObject(target) || endless) {
    change(
      '$ref',
      'widened',
      'Gemini knows no references and this one cannot be written out; anything is accepted here.',
    )
    return rest
  }
  open.set(String($ref), path)
  change('$ref', 'rewritten', 'Gemini knows no references; its target replaces it.')
  const { $defs: _defs, definitions: _definitions, ...meaning } = target
  const merged: Node = { ...meaning, ...rest }
  return typeof merged.$ref === 'string' ? inlined(merged, path, root, open, left - 1, change) : merged
}

/** Rewrites a list of types as one type, a nullable type or alternatives. */
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

/** Gemini enumerates strings only: a constant becomes an enum of one, and a null value becomes `nullable`. */
function enumerated(node: Node, change: Change): Node {
  if (node.enum === undefined && typeof node.const === 'string') {
    const { const: constant, ...rest } = node
    change('const', 'rewritten', 'Gemini knows no const; it is an enum of one.')
    return { type: 'string', ...rest, enum: [constant] }
  }
  if (!Array.isArray(node.enum)) return node
  const texts = node.enum.filter((value) => value !== null)
  if (!isTextList(texts)) return node
  // With an enum, null is accepted only if it is one of the values, whatever the type.
  const { nullable: _nullable, ...listed } = node
  if (texts.length === node.enum.length) return { type: 'string', ...listed }
  change('enum', 'rewritten', 'Gemini says null among the values as nullable.')
  return { type: 'string', ...node, enum: texts, nullable: true }
}

function isTextList(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === 'string')
}

/** Rewrites `oneOf` as `anyOf`, and a null alternative as `nullable`. */
function alternatives(node: Node, change: Change): Node {
  const { oneOf, ...others } = node
  const isOneOf = Array.isArray(oneOf) && node.anyOf === undefined
  if (isOneOf) change('oneOf', 'widened', 'Gemini does not know oneOf; it was written as anyOf.')
  const list: unknown = isOneOf ? oneOf : node.anyOf
  if (!Array.isArray(list)) return node
  const { anyOf: _anyOf, ...rest } = isOneOf ? others : node
  const branches = list.filter((branch) => !(isObject(branch) && branch.type === 'null'))
  if (branches.length === list.length) return { ...rest, anyOf: list }
  change('anyOf', 'rewritten', 'Gemini says null among alternatives as nullable.')
  const [only, ...more] = branches
  if (only === undefined) return { type: 'null', ...rest, nullable: true }
  const fits = isObject(only) && Object.keys(only).every((keyword) => !Object.hasOwn(rest, keyword))
  if (more.length === 0 && fits) return { ...only, ...rest, nullable: true }
  return { ...rest, anyOf: branches, nullable: true }
}

/** Types in capitals, lists with a schema for their items, and nothing required that is not listed. */
function inCapitals(node: Node, path: string, report: ReportLoss): Node {
  const type = typeof node.type === 'string' ? types.get(node.type) : impliedType(node)
  const { type: _type, required, ...rest } = node
  const known = isObject(rest.properties) ? rest.properties : {}
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

/** Translates a Gemini schema to JSON Schema, leniently. */
function fromGemini(schema: unknown, path: string, report: ReportLoss): JsonSchema {
  if (!isObject(schema)) return {}
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
