import type { HttpBody, Json, JsonObject, JsonSchema, ParameterStyle } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { bestMedia, type Example, examplesOf, type Media } from './media.ts'
import type { Argument, Reading } from './parameters.ts'
import { clip, follow, member, type Part, parts, type Source, textOf, Unusable } from './source.ts'

/** The body of a request: its format, and its arguments. */
export interface Body {
  readonly binding: HttpBody
  readonly arguments: readonly Argument[]
  /** Arguments from the document's examples. */
  readonly examples: readonly Example[]
}

const whole = 'body'
const base64 = { type: 'string', contentEncoding: 'base64', description: 'A file, as base64.' }
/** Keywords with which the members of a body can become separate arguments. */
const flat: ReadonlySet<string> = new Set([
  'type',
  'properties',
  'required',
  'title',
  'description',
  'example',
  'examples',
  'default',
  'deprecated',
  'additionalProperties',
  'nullable',
  'readOnly',
  'writeOnly',
  'xml',
  'externalDocs',
])

/** Reads the request body; undefined when there is none. Throws Unusable. */
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
 * Forms consist of named members. A form that can be a text is sent unchanged. A list has no names, and a multipart body
 * needs them, so both are refused. A body that may also be an object is written as one.
 */
function writable({ source }: Reading, media: Media): Media | undefined {
  if (!isForm(media)) return media
  const shapes = shapesOf(source, member(media.part, 'schema'))
  if (shapes.has('object')) return media
  if (media.type === 'multipart' || !shapes.has('text')) return undefined
  return { ...media, type: 'text', mediaType: media.mediaType ?? 'application/x-www-form-urlencoded' }
}

function isForm({ type }: Media): boolean {
  return type === 'form' || type === 'multipart'
}

/** What a value can be; a text is any scalar. */
type Shape = 'object' | 'array' | 'text' | 'null'

const allShapes: ReadonlySet<Shape> = new Set(['object', 'array', 'text', 'null'])

/** What the values of a schema can be, by its types, references and combined schemas. Each schema is read once. */
function shapesOf(
  source: Source,
  schema: Part | undefined,
  known = new Map<JsonObject, ReadonlySet<Shape>>(),
): ReadonlySet<Shape> {
  if (schema === undefined || !isObject(schema.value)) return allShapes
  const part = follow(source, schema)
  const found = known.get(part.value)
  if (found !== undefined) return found
  // A schema that contains itself adds nothing.
  known.set(part.value, allShapes)
  const { type, nullable, properties, items, enum: values } = part.value
  const types = Array.isArray(type) ? type : type === undefined ? [] : [type]
  let shapes = allShapes
  if (types.length > 0) shapes = new Set([...types.map(shapeOfType), ...(nullable === true ? ['null' as const] : [])])
  else if (Array.isArray(values)) shapes = new Set(values.map(shapeOfValue))
  else if (isObject(properties)) shapes = new Set(['object'])
  else if (items !== undefined) shapes = new Set(['array'])
  const within = (other: ReadonlySet<Shape>): ReadonlySet<Shape> =>
    new Set([...shapes].filter((shape) => other.has(shape)))
  for (const one of parts(member(part, 'allOf'))) shapes = within(shapesOf(source, one, known))
  for (const key of ['oneOf', 'anyOf']) {
    const alternatives = parts(member(part, key))
    if (alternatives.length === 0) continue
    shapes = within(new Set(alternatives.flatMap((one) => [...shapesOf(source, one, known)])))
  }
  known.set(part.value, shapes)
  return shapes
}

function shapeOfType(type: Json): Shape {
  return type === 'object' || type === 'array' || type === 'null' ? type : 'text'
}

function shapeOfValue(value: Json): Shape {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value === 'object' ? 'object' : 'text'
}

/** Generated documents may give a GET an empty body. */
function isEmpty(reading: Reading, body: Part): boolean {
  return parts(member(body, 'content')).every((media) => {
    const schema = member(media, 'schema')
    const object = schema && objectOf(reading, schema)
    return schema === undefined || (object !== undefined && Object.keys(object.value.properties ?? {}).length === 0)
  })
}

/** The object schema of a body with its references resolved; undefined when it is not an object. */
function objectOf({ source }: Reading, schema: Part): Part<JsonObject> | undefined {
  if (!isObject(schema.value)) return undefined
  if (source.version === '3.1' && schema.value.$ref !== undefined && Object.keys(schema.value).length > 1)
    return undefined
  const end = follow(source, schema)
  return isObject(end.value.properties) ? end : undefined
}

/**
 * Whether the members of a body become arguments: a closed list of members, no constraint across members, and no
 * required member in an optional body.
 */
function canBeFlat(schema: JsonObject, required: boolean): boolean {
  const { type = 'object', additionalProperties = false, required: needed, nullable } = schema
  const ties = Object.keys(schema).some((keyword) => !flat.has(keyword) && !keyword.startsWith('x-'))
  const demands = Array.isArray(needed) && needed.length > 0
  return type === 'object' && additionalProperties === false && nullable !== true && !ties && (required || !demands)
}

function flatBody(reading: Reading, media: Media, object: Part<JsonObject>, files: readonly string[]): Body {
  const schema = reading.translate(object.value, object.path)
  const { properties, required } = membersOf(schema)
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

/** The members of a translated object, and which of them are required. */
function membersOf(schema: JsonSchema): { properties: { [name: string]: JsonSchema }; required: unknown } {
  const { properties, required } = typeof schema === 'boolean' ? {} : schema
  const members = Object.entries(isObject(properties) ? properties : {}).flatMap(([name, member]) =>
    typeof member === 'boolean' || isObject(member) ? [[name, member] as const] : [],
  )
  return { properties: Object.fromEntries(members), required }
}

/** An example without members that are not arguments, such as read-only members. */
function pick(example: Example, properties: object): Example {
  if (!isObject(example.value)) return example
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
  if (object === undefined) return isForm(media) ? asObject(reading, schema, translate(schema)) : translate(schema)
  const own = translate(object)
  const properties = Object.entries(membersOf(own).properties)
  const asBase64: ReadonlySet<string> = new Set(files)
  return {
    ...(typeof own === 'boolean' ? {} : own),
    properties: Object.fromEntries(properties.map(([name, one]) => [name, asBase64.has(name) ? asFile(one) : one])),
  }
}

/** The schema of a form, which is written from an object, even if the document allows other values. */
function asObject({ source }: Reading, schema: Part, translated: JsonSchema): JsonSchema {
  const shapes = shapesOf(source, schema)
  if (shapes.size === 1 && shapes.has('object')) return translated
  return { ...(typeof translated === 'boolean' ? {} : translated), type: 'object' }
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

const styles: readonly ParameterStyle[] = ['form', 'spaceDelimited', 'pipeDelimited', 'deepObject']

/** The encoding styles of form members. */
function encodingOf({ part }: Media): NonNullable<HttpBody['encoding']> {
  const entries = parts(member(part, 'encoding')).flatMap(({ key, value }) => {
    const style = isObject(value) ? styles.find((each) => each === value.style) : undefined
    if (!isObject(value) || style === undefined) return []
    const explode = typeof value.explode === 'boolean' ? { explode: value.explode } : {}
    return [[key, { style, ...explode }] as const]
  })
  return Object.fromEntries(entries)
}

/** Members of a multipart body that are files, or lists of files. */
function filesIn({ source }: Reading, { properties }: JsonObject): readonly string[] {
  const end = (schema: Json | undefined): JsonObject =>
    isObject(schema) ? follow(source, { value: schema, path: '' }).value : {}
  const isFile = ({ type, format, contentMediaType, contentEncoding }: JsonObject): boolean =>
    format === 'binary' ||
    ((type === undefined || type === 'string') && contentMediaType !== undefined && contentEncoding === undefined)
  const members = isObject(properties) ? Object.entries(properties) : []
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

/** Multipart parts have one encoding and no own headers; the report names what is dropped. */
function warnOfEncoding({ report, operation }: Reading, { part, type }: Media): void {
  const encoding = member(part, 'encoding')
  const lost = parts(encoding).filter(
    ({ value }) => isObject(value) && ((value.style !== undefined && type !== 'form') || value.headers !== undefined),
  )
  if (encoding === undefined || lost.length === 0) return
  const names = clip(lost.map(({ key }) => key).join(', '), 200)
  report.warn(
    encoding.path,
    `the encoding of ${names} is not kept; in a ${type} body, members of members are JSON text`,
    operation.label,
  )
}
