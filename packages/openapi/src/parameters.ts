import type { HttpAuth, HttpParameter, Json, JsonObject, JsonSchema, ParameterStyle } from '@gantry/contract'
import { isFramingHeader, isHeaderName, isSensitiveHeader } from '@gantry/core/internal/egress/headers'
import { firstExample, isJsonType } from './media.ts'
import { argumentName, createNamer } from './names.ts'
import type { Operation, Report } from './operations.ts'
import { clip, follow, member, type Part, parts, type Source, textOf, Unusable } from './source.ts'

/** The context in which the parts of one operation are read. */
export interface Reading {
  readonly source: Source
  readonly operation: Operation
  readonly report: Report
  /** The credentials that the backend sends. */
  readonly auth: readonly HttpAuth[]
  /** Translates a schema of the document into the tool's input. */
  readonly translate: (schema: Json, path: string) => JsonSchema
}

type Where = HttpParameter['in']

/** Styles by place, the usual one first. */
const styles: { readonly [place in Where]: readonly ParameterStyle[] } = {
  path: ['simple', 'label', 'matrix'],
  query: ['form', 'spaceDelimited', 'pipeDelimited', 'deepObject'],
  header: ['simple'],
  cookie: ['form'],
}
/** Headers that OpenAPI takes out of parameters, and others that the backend writes anyway. */
const writtenHeaders: ReadonlySet<string> = new Set([
  'accept',
  'accept-encoding',
  'content-type',
  'authorization',
  'host',
  'content-length',
  'connection',
  'idempotency-key',
])
const maxNote = 1_000
const mostParameters = 1_000

/** The parameters of an operation and of its path as arguments; throws Unusable. */
export function readParameters(reading: Reading): readonly Argument[] {
  const { operation, report } = reading
  const inPath = new Set(
    [...(operation.template.split('?', 1)[0] ?? '').matchAll(/\{([^{}]+)\}/g)].map((match) => match[1] ?? ''),
  )
  const all = merged(reading)
  if (all.length > mostParameters) throw new Unusable(`it has more than ${mostParameters} parameters`)
  const found = all.flatMap((parameter) => {
    const argument = readParameter(reading, parameter, inPath)
    return argument === undefined ? [] : [argument]
  })
  for (const { wire, place } of found) if (place?.in === 'path') inPath.delete(wire)
  for (const wire of inPath) {
    report.warn(
      operation.path,
      `the path names {${clip(wire, 60)}}, which is not a parameter; a string is assumed`,
      operation.label,
    )
    found.push({ wire, schema: { type: 'string' }, required: true, place: { in: 'path', name: wire } })
  }
  return found
}

/** By place and name, the operation's own before those of its path. */
function merged({ source, operation }: Reading): readonly Part<JsonObject>[] {
  const found = new Map<string, Part<JsonObject>>()
  for (const list of operation.parameters) {
    for (const part of parts(list)) {
      const parameter = follow(source, part)
      found.set(`${String(parameter.value.in)} ${String(parameter.value.name)}`, parameter)
    }
  }
  return [...found.values()]
}

function isParameterLocation(value: unknown): value is Where {
  return typeof value === 'string' && Object.hasOwn(styles, value)
}

function readParameter(reading: Reading, part: Part<JsonObject>, inPath: ReadonlySet<string>): Argument | undefined {
  const { name, in: where, required } = part.value
  const ignore = (why: string): undefined => void reading.report.warn(part.path, `${why}; it is ignored`)
  if (typeof name !== 'string' || name === '' || !isParameterLocation(where)) {
    throw new Unusable(`the parameter at ${part.path} has no name or no known place`)
  }
  const place = where
  if (reading.auth.some((one) => proves(one, place, name))) {
    return ignore(`the ${place} parameter ${clip(name, 60)} is what proves who calls, which the backend sends`)
  }
  if (place === 'header' && !mayBeArgument(name)) {
    const words = `the header ${clip(name, 60)} is not for a parameter to set`
    if (required === true && !writtenHeaders.has(name.toLowerCase())) throw new Unusable(`${words}, and it is required`)
    return ignore(words)
  }
  if (place === 'path' && !inPath.has(name)) return ignore('the parameter is not in the path')
  const content = parts(member(part, 'content'))[0]
  const isRequired = place === 'path' || required === true
  if (content !== undefined && !isJsonType(content.key)) {
    if (isRequired)
      throw new Unusable(`the parameter ${clip(name, 60)} is ${clip(content.key, 60)}, which cannot be written`)
    return ignore(`the parameter is ${clip(content.key, 60)}, which cannot be written`)
  }
  const example = firstExample(reading.source, part) ?? (content && firstExample(reading.source, content))
  return {
    wire: name,
    schema: described(schemaOf(reading, content ?? part), part.value),
    required: isRequired,
    place: placeOf(reading, part, place, content !== undefined),
    ...(example === undefined ? {} : { example: example.value }),
  }
}

/** Whether a credential goes to the place of a parameter; as an argument too, it would be refused at each call. */
function proves(auth: HttpAuth, place: Where, name: string): boolean {
  if (auth.type === 'header') return place === 'header' && auth.name.toLowerCase() === name.toLowerCase()
  return (auth.type === 'query' || auth.type === 'cookie') && auth.type === place && auth.name === name
}

/** A model that fills in such a header could pass for another caller, or have the message read as another one. */
function mayBeArgument(header: string): boolean {
  const taken = writtenHeaders.has(header.toLowerCase()) || isFramingHeader(header) || isSensitiveHeader(header)
  return isHeaderName(header) && !taken
}

function schemaOf({ translate }: Reading, owner: Part): JsonSchema {
  const schema = member(owner, 'schema')
  return schema === undefined ? {} : translate(schema.value, schema.path)
}

/** The schema with what the parameter says of itself. */
function described(schema: JsonSchema, { description, deprecated }: JsonObject): JsonSchema {
  const text = textOf(description)
  if (typeof schema === 'boolean') return schema
  return {
    ...schema,
    ...(text === undefined ? {} : { description: clip(text, maxNote) }),
    ...(deprecated === true ? { deprecated } : {}),
  }
}

/** Only what differs from the usual is said. */
function placeOf({ report }: Reading, part: Part<JsonObject>, where: Where, json: boolean): HttpParameter {
  const { name, style, explode, allowReserved } = part.value
  const [usual, ...others] = styles[where]
  const known = others.find((other) => other === style)
  if (style !== undefined && style !== usual && known === undefined) {
    report.warn(`${part.path}/style`, `is not a style for the ${where}; ${usual} is used`)
  }
  const written = known ?? usual
  return {
    in: where,
    name: String(name),
    ...(known === undefined || json ? {} : { style: known }),
    ...(typeof explode !== 'boolean' || json || explode === (written === 'form') ? {} : { explode }),
    ...(allowReserved === true && where === 'query' ? { allowReserved } : {}),
    ...(json ? { json } : {}),
  }
}

/** One argument of a tool, and the parameter it becomes; a part of the body has no place of its own. */
export interface Argument {
  /** Its name on the wire, which for a part of the body is also its name as an argument. */
  readonly wire: string
  readonly schema: JsonSchema
  readonly required: boolean
  readonly place?: HttpParameter
  readonly example?: Json
}

/**
 * Names for arguments. Parts of the body keep theirs; a parameter keeps its own in characters that every model takes, and is
 * prefixed with its place (`query_id`) where that name is in the body or in another place too.
 */
export function nameArguments(
  body: readonly Argument[],
  parameters: readonly Argument[],
): ReadonlyMap<string, Argument> {
  const named = new Map(body.map((argument) => [argument.wire, argument]))
  const counts = new Map<string, number>()
  const free = createNamer(named)
  const nameOf = ({ wire }: Argument): string => argumentName(wire)
  for (const name of [...named.keys(), ...parameters.map(nameOf)]) counts.set(name, (counts.get(name) ?? 0) + 1)
  for (const parameter of parameters) {
    const name = nameOf(parameter)
    const wanted = counts.get(name) === 1 ? name : `${parameter.place?.in}_${name}`
    named.set(free(wanted), parameter)
  }
  return named
}
