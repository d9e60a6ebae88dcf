import { randomBytes } from 'node:crypto'
import type { HttpBody, Json, JsonObject } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { asText, badArgument, encode, type Pair, writePairs } from './parameters.ts'

/** An encoded body. */
export interface SentBody {
  readonly data: string | Uint8Array
  readonly mediaType: string
}

/** Encodes the body; `rest` are the arguments without a parameter. Undefined when there is no body. */
export function writeBody(body: HttpBody, args: JsonObject, rest: JsonObject): SentBody | undefined {
  const { arg = '' } = body
  const value = body.arg === undefined ? rest : Object.hasOwn(args, arg) ? args[arg] : undefined
  return value === undefined ? undefined : writers[body.type](body, value)
}

const writers: { readonly [type in HttpBody['type']]: (body: HttpBody, value: Json) => SentBody } = {
  json: (body, value) => ({ data: JSON.stringify(value), mediaType: body.mediaType ?? 'application/json' }),
  form: (body, value) => ({
    data: joinPairs(membersOf(body, value).flatMap(([name, member]) => formPairs(body, name, member))),
    mediaType: body.mediaType ?? 'application/x-www-form-urlencoded',
  }),
  multipart: (body, value) => {
    const files = new Set(body.files ?? [])
    const parts = membersOf(body, value).flatMap(([name, member]) => partsOf(name, member, files.has(name)))
    return encodeMultipart(parts, body.mediaType ?? 'multipart/form-data')
  },
  text: (body, value) => ({ data: asText(value), mediaType: body.mediaType ?? 'text/plain; charset=utf-8' }),
  binary: (body, value) => ({
    data: fromBase64(body.arg ?? '', value),
    mediaType: body.mediaType ?? 'application/octet-stream',
  }),
}

function membersOf(body: HttpBody, value: Json): [name: string, member: Json][] {
  if (isObject(value)) return Object.entries(value)
  throw badArgument(body.arg ?? '', `is a ${body.type} body and must be an object`)
}

/** The style of the binding, else the OpenAPI default for forms: a list repeats its name, an object is JSON text. */
function formPairs({ encoding = {} }: HttpBody, name: string, value: Json): Pair[] {
  const place = { argument: name, name, style: 'form', explode: true, reserved: false } as const
  const own = Object.hasOwn(encoding, name) ? encoding[name] : undefined
  if (own !== undefined) {
    const { style = 'form', explode = style === 'form' } = own
    return writePairs({ ...place, style, explode, json: false }, value)
  }
  const items = Array.isArray(value) ? value : [value]
  return items.flatMap((item) => writePairs({ ...place, json: typeof item === 'object' }, item))
}

/** The parts of a multipart body, with their media types. */
function partsOf(name: string, value: Json, file: boolean): Part[] {
  if (Array.isArray(value))
    return value.flatMap((item) => partsOf(name, Array.isArray(item) ? asText(item) : item, file))
  if (value === null) return []
  if (file) return [{ name, data: fromBase64(name, value), mediaType: 'application/octet-stream', filename: name }]
  const composite = typeof value === 'object' ? { mediaType: 'application/json' } : {}
  return [{ name, data: Buffer.from(asText(value)), ...composite }]
}

/** Decodes base64 strictly; `Buffer.from` alone would ignore invalid characters. */
function fromBase64(argument: string, value: Json): Uint8Array {
  const sound =
    typeof value === 'string' && /^[A-Za-z0-9+/]*={0,2}$/.test(value) && value.replace(/=+$/, '').length % 4 !== 1
  if (!sound) throw badArgument(argument, 'must be base64')
  return Buffer.from(value, 'base64')
}

export function joinPairs(pairs: readonly Pair[], separator = '&'): string {
  return pairs.map(([name, value]) => `${name}=${value}`).join(separator)
}

/** A pair from the configuration. */
export function constantPair(name: string, value: string): Pair {
  return [encode(name, name), encode(name, value)]
}

/** One part of a multipart body. */
interface Part {
  readonly name: string
  readonly data: Uint8Array
  /** Marks the part as a file. */
  readonly filename?: string
  /** Plain text when absent. */
  readonly mediaType?: string
}

/** Encodes parts with a boundary that occurs in none of them; names are escaped as in browsers. */
export function encodeMultipart(
  parts: readonly Part[],
  mediaType: string,
  random: () => string = () => randomBytes(18).toString('hex'),
): { readonly data: Uint8Array; readonly mediaType: string } {
  let boundary = `gantry-${random()}`
  while (parts.some(({ data }) => Buffer.from(data.buffer, data.byteOffset, data.byteLength).includes(boundary))) {
    boundary = `gantry-${random()}`
  }
  const pieces = parts.flatMap((part) => [Buffer.from(`--${boundary}\r\n${headersOf(part)}\r\n`), part.data, lineEnd])
  const data = Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)])
  return { data, mediaType: `${mediaType}; boundary=${boundary}` }
}

const lineEnd = Buffer.from('\r\n')

function headersOf({ name, filename, mediaType }: Part): string {
  const file = filename === undefined ? '' : `; filename="${escapeName(filename)}"`
  const type = mediaType === undefined ? '' : `Content-Type: ${mediaType}\r\n`
  return `Content-Disposition: form-data; name="${escapeName(name)}"${file}\r\n${type}`
}

const escapes: { readonly [character: string]: string } = { '\r': '%0D', '\n': '%0A', '"': '%22' }

/** Escapes quotes and line breaks in a name. */
function escapeName(name: string): string {
  return name.replace(/[\r\n"]/g, (character) => escapes[character] ?? '')
}
