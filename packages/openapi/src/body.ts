import type { HttpBody, Json, JsonObject, JsonSchema, ParameterStyle } from '@gantry/contract'
import { type Example, examplesOf } from './examples.ts'
import { bestMedia, type Media } from './media.ts'
import type { Argument, Reading } from './parameters.ts'
import { clip, follow, isRecord, member, type Part, parts, textOf, Unusable } from './source.ts'

/** The body of a request: how it is written, and the arguments it is made of. */
export interface Body {
  readonly binding: HttpBody
  readonly arguments: readonly Argument[]
  /** Arguments as the document's examples have them. */
  readonly examples: readonly Example[]
}

const whole = 'body'
const base64 = { type: 'string', contentEncoding: 'base64', description: 'A file, as base64.' }
/** Keywords beside which the members of a body can stand as arguments of their own. */
const flat: ReadonlySet<string> = new Set([
  ...['type', 'properties', 'required', 'title', 'description', 'example', 'examples', 'default', 'deprecated'],
  ...['additionalProperties', 'nullable', 'readOnly', 'writeOnly', 'xml', 'externalDocs'],
])

/** Reads the request body, or gives undefined when there is none; throws Unusable. */
export function readBody(reading: Reading): Body | undefined {
  const { source, operation, report } = reading
  const part = member({ value: operation.value, path: operation.path }, 'requestBody')
  if (part === undefined) return undefined
  const body = follow(source, part)
  const required = body.value.required === true
  const { method } = operation
  if (method === 'GET' || method === 'HEAD' || (method === 'DELETE' && !required)) {
    if (required) throw new Unusable(`it needs a body, which ${method} does not send`)
    if (isEmpty(reading, body)) return undefined
    report.warn(body.path, `an optional body is not sent with ${method}; it is ignored`, operation.label)
    return undefined
  }
  const best = bestMedia(parts(member(body, 'content')))
  if (best === undefined) return undefined
  const media = writable(reading, best)
  if (media === undefined) {
    const what = `a ${best.type} body that is ${best.type === 'form' ? 'a list' : 'a list or a text'} cannot be written`
    if (required) throw new Unusable(what)
    report.warn(body.path, `${what}; it is ignored`, operation.label)
    return undefined
  }
  const schema = member(media.part, 'schema')
  const object = schema === undefined ? undefined : objectOf(reading, schema)
  const files = media.type === 'multipart' && object !== undefined ? filesIn(reading, object.value) : []
  warnOfEncoding(reading, media)
  const isFlat =
    object !== undefined && ['json', 'form', 'multipart'].includes(media.type) && canBeFlat(object.value, required)
  return isFlat ? flatBody(reading, media, object, files) : wholeBody(reading, media, body.value, schema, files)
}

/**
 * Forms are made of named members. A form that is a text is sent as the text it is; a list has no names, and neither
 * has a part of a multipart body, so that there is no way to write them.
 */
function writable({ source }: Reading, media: Media): Media | undefined {
  if (media.type !== 'form' && media.type !== 'multipart') return media
  const schema = member(media.part, 'schema')
  const type = schema === undefined || !isRecord(schema.value) ? undefined : follow(source, schema).value.type
  if (type === 'string' && media.type === 'form') {
    return { ...media, type: 'text', mediaType: media.mediaType ?? 'application/x-www-form-urlencoded' }
  }
  return type === 'string' || type === 'array' ? undefined : media
}

/** Generated documents give even a GET a body, without any members. */
function isEmpty(reading: Reading, body: Part): boolean {
  return parts(member(body, 'content')).every((media) => {
    const schema = member(media, 'schema')
    const object = schema && objectOf(reading, schema)
    return schema === undefined || (object !== undefined && Object.keys(object.value.properties ?? {}).length === 0)
  })
}

/** The object schema of a body, where its references end; undefined when it is none. */
function objectOf({ source }: Reading, schema: Part): Part<JsonObject> | undefined {
  if (!isRecord(schema.value)) return undefined
  if (source.version === '3.1' && schema.value.$ref !== undefined && Object.keys(schema.value).length > 1)
    return undefined
  const end = follow(source, schema)
  return isRecord(end.value.properties) ? end : undefined
}

/**
 * Whether the members of a body become arguments: a closed list of members, nothing that ties them together, and no
 * member that is required only if there is a body at all.
 */
function canBeFlat(schema: JsonObject, required: boolean): boolean {
  const { type = 'object', additionalProperties = false, required: needed, nullable } = schema
  const ties = Object.keys(schema).some((keyword) => !flat.has(keyword) && !keyword.startsWith('x-'))
  const demands = Array.isArray(needed) && needed.length > 0
  return type === 'object' && additionalProperties === false && nullable !== true && !ties && (required || !demands)
}

function flatBody(reading: Reading, media: Media, object: Part<JsonObject>, files: readonly string[]): Body {
  const schema = reading.translate(object.value, object.path)
  const { properties = {}, required } = schema as { properties?: { [name: string]: JsonSchema }; required?: unknown }
  const needed: ReadonlySet<unknown> = new Set(Array.isArray(required) ? required : [])
  const asBase64: ReadonlySet<string> = new Set(files)
  const members = Object.entries(properties).map(([wire, own]) => ({
    wire,
    schema: asBase64.has(wire) ? asFile(own) : own,
    required: needed.has(wire),
  }))
  const examples = examplesOf(reading.source, media.part).map((example) => pick(example, properties))
  return { binding: bindingOf(media, files), arguments: members, examples }
}

/** An example without the members that are not arguments, such as those that only answers have. */
function pick(example: Example, properties: object): Example {
  if (!isRecord(example.value)) return example
  const known = Object.entries(example.value).filter(([name]) => Object.hasOwn(properties, name))
  return { ...example, value: Object.fromEntries(known) }
}

function wholeBody(
  reading: Reading,
  media: Media,
  { description, required }: JsonObject,
  schema: Part | undefined,
  files: readonly string[],
): Body {
  const translated = schemaOf(reading, media, schema, files)
  const text = textOf(description)
  const noted =
    text === undefined || typeof translated === 'boolean' || translated.description !== undefined
      ? translated
      : { ...translated, description: clip(text, 1_000) }
  const examples = examplesOf(reading.source, media.part).map((example) => ({
    ...example,
    value: { [whole]: example.value },
  }))
  return {
    binding: { ...bindingOf(media, files), arg: whole },
    arguments: [{ wire: whole, schema: noted, required: required === true }],
    examples,
  }
}

function schemaOf(reading: Reading, media: Media, schema: Part | undefined, files: readonly string[]): JsonSchema {
  if (media.type === 'binary') return base64
  const translate = (part: Part): JsonSchema => reading.translate(part.value, part.path)
  if (media.type === 'text') {
    const own = schema === undefined ? {} : follow(reading.source, schema).value
    return schema !== undefined && own.type === 'string' ? translate(schema) : { type: 'string' }
  }
  if (schema === undefined) return media.type === 'json' ? {} : { type: 'object' }
  const object = files.length === 0 ? undefined : objectOf(reading, schema)
  if (object === undefined) return translate(schema)
  const own = translate(object) as { properties?: { [name: string]: JsonSchema } }
  const properties = Object.entries(own.properties ?? {})
  const asBase64: ReadonlySet<string> = new Set(files)
  return {
    ...own,
    properties: Object.fromEntries(properties.map(([name, one]) => [name, asBase64.has(name) ? asFile(one) : one])),
  }
}

function bindingOf(media: Media, files: readonly string[]): HttpBody {
  const { type, mediaType } = media
  const encoding = type === 'form' ? encodingOf(media) : {}
  return {
    type,
    ...(mediaType === undefined ? {} : { mediaType }),
    ...(files.length === 0 ? {} : { files }),
    ...(Object.keys(encoding).length === 0 ? {} : { encoding }),
  }
}

const styles: readonly unknown[] = ['form', 'spaceDelimited', 'pipeDelimited', 'deepObject']

/** The styles that a document gives to members of a form. */
function encodingOf({ part }: Media): NonNullable<HttpBody['encoding']> {
  const entries = parts(member(part, 'encoding')).flatMap(({ key, value }) => {
    if (!isRecord(value) || !styles.includes(value.style)) return []
    const explode = typeof value.explode === 'boolean' ? { explode: value.explode } : {}
    return [[key, { style: value.style as ParameterStyle, ...explode }] as const]
  })
  return Object.fromEntries(entries)
}

/** Members of a multipart body that are files, or lists of files. */
function filesIn({ source }: Reading, { properties }: JsonObject): readonly string[] {
  const end = (schema: Json | undefined): JsonObject =>
    isRecord(schema) ? follow(source, { value: schema, path: '' }).value : {}
  const isFile = ({ type, format, contentMediaType, contentEncoding }: JsonObject): boolean =>
    format === 'binary' ||
    ((type === undefined || type === 'string') && contentMediaType !== undefined && contentEncoding === undefined)
  const members = isRecord(properties) ? Object.entries(properties) : []
  return members.filter(([, schema]) => isFile(end(schema)) || isFile(end(end(schema).items))).map(([name]) => name)
}

/** A file, or a list of files, as text in base64. */
function asFile(schema: JsonSchema): JsonSchema {
  if (typeof schema === 'boolean') return base64
  const { description, type } = schema
  const own =
    typeof description === 'string' ? { ...base64, description: `${description} (a file, as base64)` } : base64
  return type === 'array' ? { type: 'array', items: base64 } : own
}

/** The parts of a multipart body are written in one way, and no part has headers of its own; a document is told so. */
function warnOfEncoding({ report, operation }: Reading, { part, type }: Media): void {
  const encoding = member(part, 'encoding')
  const lost = parts(encoding).filter(
    ({ value }) => isRecord(value) && ((value.style !== undefined && type !== 'form') || value.headers !== undefined),
  )
  if (encoding === undefined || lost.length === 0) return
  const names = clip(lost.map(({ key }) => key).join(', '), 200)
  report.warn(
    encoding.path,
    `the encoding of ${names} is not kept; in a ${type} body, members of members are JSON text`,
    operation.label,
  )
}
