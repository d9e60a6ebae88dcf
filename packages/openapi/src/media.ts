import type { HttpBody, Json, JsonObject, JsonSchema, ToolExample } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { Validator } from '@gantry/json-schema'
import type { Operation } from './operations.ts'
import type { Argument } from './parameters.ts'
import { attempt, clip, follow, member, type Part, parts, type Source, textOf } from './source.ts'
import { isExact } from './translate.ts'

/** A media type in lower case, without parameters. */
function bare(type: string): string {
  return (type.split(';', 1)[0] ?? '').trim().toLowerCase()
}

export function isJsonType(type: string): boolean {
  return /^(?:\*\/\*|[^/]+\/(?:json|[^/]+\+json))$/.test(bare(type))
}

/** The types that a body is written as, most useful first. */
const kinds: readonly (readonly [HttpBody['type'], (type: string) => boolean, usual: string])[] = [
  ['json', isJsonType, 'application/json'],
  ['form', (type) => type === 'application/x-www-form-urlencoded', 'application/x-www-form-urlencoded'],
  ['multipart', (type) => type.startsWith('multipart/'), 'multipart/form-data'],
  ['text', (type) => /^text\/|[/+](?:xml|yaml|x-yaml|graphql|sql|javascript)$/.test(type), 'text/plain'],
  ['binary', () => true, 'application/octet-stream'],
]

/** One format of a body. */
export interface Media {
  readonly type: HttpBody['type']
  /** To be sent, unless it is the usual one. */
  readonly mediaType?: string
  readonly part: Part
}

const mostTypes = 100

/** The most useful of the first hundred media types that a body may have, `application/json` before its relatives. */
export function bestMedia(types: readonly (Part & { readonly key: string })[]): Media | undefined {
  for (const [type, fits, usual] of kinds) {
    const fitting = types.slice(0, mostTypes).filter(({ key }) => fits(bare(key)))
    const chosen = fitting.find(({ key }) => bare(key) === usual) ?? fitting[0]
    if (chosen === undefined) continue
    const named = bare(chosen.key)
    const same = named === usual || named.includes('*') || !/^[!-~ ]{3,200}$/.test(chosen.key)
    return { type, part: chosen, ...(same ? {} : { mediaType: chosen.key }) }
  }
  return undefined
}

/** The successful response of an operation. */
interface ResponseSchema {
  /** Undefined when it is not described, or not JSON. */
  readonly schema: JsonSchema | undefined
  /** The media type to ask for, when it is JSON by another name. */
  readonly accept?: string
}

/**
 * The output from the 2xx responses, or from `default` when there are none. Different schemas become alternatives; a
 * response without content is null.
 */
export function readResponse(
  source: Source,
  operation: Operation,
  translate: (schema: Json, path: string) => JsonSchema,
): ResponseSchema {
  const all = parts(member({ value: operation.value, path: operation.path }, 'responses'))
  const good = all.filter(({ key }) => /^2(?:\d\d|XX)$/i.test(key))
  const chosen = good.length > 0 ? good : all.filter(({ key }) => key === 'default')
  const contents = chosen.map((response) => parts(member(follow(source, response), 'content')))
  const json = contents.flatMap((types) => bestJson(types) ?? [])
  const schemas = json.flatMap((media) => member(media, 'schema') ?? [])
  const nothing = contents.some((types) => types.length === 0)
  const other = contents.some((types) => types.length > 0 && bestJson(types) === undefined)
  if (schemas.length === 0 || schemas.length < json.length || other) return { schema: undefined }
  const distinct = [...new Map(schemas.map((schema) => [JSON.stringify(schema.value), schema])).values()]
  const written = distinct.map(({ value, path }) => translate(value, path))
  const options: JsonSchema[] = nothing ? [...written, { type: 'null' }] : written
  const schema = options.length === 1 ? options[0] : { anyOf: options }
  const named = json[0]?.key ?? ''
  const unusual = /^[!-~]{3,100}$/.test(named) && !/^(?:application\/json|[^+]*\*)/i.test(named)
  return { schema, ...(unusual ? { accept: named } : {}) }
}

function bestJson(types: readonly (Part & { key: string })[]): (Part & { key: string }) | undefined {
  const json = types.filter(({ key }) => isJsonType(key))
  return json.find(({ key }) => /^application\/json\b/i.test(key)) ?? json[0]
}

const mostExamples = 3
const maxExample = 10_000

/** An example of the document, with the name it has there. */
export interface Example {
  readonly title?: string
  readonly value: Json
}

/** The examples of a parameter or a media type: its own, or those of its schema. */
export function examplesOf(source: Source, owner: Part): readonly Example[] {
  const named = parts(member(owner, 'examples')).flatMap(({ key, value, path }) => {
    const read = attempt(() => follow(source, { value, path }).value)
    if (!('value' in read) || read.value.value === undefined) return []
    return [{ title: textOf(read.value.summary) ?? key, value: read.value.value }]
  })
  const single = member(owner, 'example') ?? schemaExample(source, owner)
  return [...named, ...(single === undefined ? [] : [{ value: single.value }])].slice(0, mostExamples)
}

export function firstExample(source: Source, owner: Part): Example | undefined {
  return examplesOf(source, owner)[0]
}

function schemaExample(source: Source, owner: Part): Part | undefined {
  const schema = member(owner, 'schema')
  const read = schema && attempt(() => follow(source, schema))
  if (read === undefined || !('value' in read)) return undefined
  const list = member(read.value, 'examples')
  return member(read.value, 'example') ?? (Array.isArray(list?.value) ? parts(list)[0] : undefined)
}

/** Worked uses of a tool, and why some examples of the document are not among them. */
interface ToolExamples {
  readonly kept: readonly ToolExample[]
  readonly lost: readonly string[]
}

/**
 * The examples of a tool's parameters combined with each example of its body; only those that match the input schema. A
 * required argument without an example is taken from its schema, where that has a value.
 */
export function toolExamples(
  named: ReadonlyMap<string, Argument>,
  bodies: readonly Example[],
  compile: () => Validator,
  title: string,
): ToolExamples {
  const given: JsonObject = {}
  for (const [name, { example }] of named) if (example !== undefined && isExact(example)) given[name] = example
  if (Object.keys(given).length === 0 && bodies.length === 0) return { kept: [], lost: [] }
  let compiled: Validator | undefined
  const check = (args: Json): boolean => {
    compiled ??= compile()
    return compiled.check(args)
  }
  const kept: ToolExample[] = []
  const lost = new Set<string>()
  const candidates: readonly Example[] = bodies.length === 0 ? [{ value: {} }] : bodies
  for (const body of candidates) {
    const args = { ...given, ...(isObject(body.value) ? body.value : {}) }
    const fault = complete(args, named) ?? (isObject(body.value) ? argsFault(args, check) : 'is not an object')
    if (Object.keys(args).length === 0) continue
    if (fault === undefined) kept.push({ title: clip(body.title ?? title, 200), args })
    else lost.add(fault)
  }
  return { kept, lost: [...lost] }
}

/** Fills in required arguments from their schemas; returns the reason if some are still missing. */
function complete(args: JsonObject, named: ReadonlyMap<string, Argument>): string | undefined {
  for (const [name, { required, schema }] of named) {
    if (!required || Object.hasOwn(args, name)) continue
    const value = namedValue(schema)
    if (value === undefined) return `has nothing for the required ${clip(name, 60)}`
    args[name] = value
  }
  return undefined
}

function namedValue(schema: JsonSchema): Json | undefined {
  if (typeof schema === 'boolean') return undefined
  const { const: only, default: usual, enum: list } = schema as { const?: Json; default?: Json; enum?: Json }
  return [usual, only, Array.isArray(list) ? list[0] : undefined].find((value) => value !== undefined && isExact(value))
}

function argsFault(args: JsonObject, check: (args: Json) => boolean): string | undefined {
  if (!isExact(args)) return 'holds a number that loses digits'
  if (JSON.stringify(args).length > maxExample) return `is longer than ${maxExample} characters`
  return check(args) ? undefined : 'does not fit the schema'
}
