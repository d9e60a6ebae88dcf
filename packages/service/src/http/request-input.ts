import type { IncomingMessage } from 'node:http'
import { type Issue, type Json, type JsonObject, type JsonSchema, ToolError } from '@gantry/contract'
import { parseJson } from '@gantry/core/internal/json/parse'
import { JsonError } from '@gantry/core/internal/json/plain'
import { nearest } from '@gantry/core/internal/search/near'
import { compileSchema } from '@gantry/json-schema'
import { bodyDepth, bodyNodes } from './limits.ts'

/** The content type that curl sends by default; such a body is read as JSON only. */
const curlType = 'application/x-www-form-urlencoded'
const jsonType = /^application\/(?:[\w.-]+\+)?json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?$/i

export const noBytes: Uint8Array = new Uint8Array(0)

/**
 * The bytes of a request's body, empty when it has none. They are counted as they arrive, whatever the headers declare;
 * Node discards the rest of a body over the limit. Throws PAYLOAD_INVALID or PAYLOAD_TOO_LARGE.
 */
export async function readBody(request: IncomingMessage, most: number): Promise<Uint8Array> {
  const { 'content-type': type, 'content-encoding': encoding, 'content-length': length } = request.headers
  if (request.headers['transfer-encoding'] === undefined && (length === undefined || length === '0')) return noBytes
  if (type !== undefined && type !== curlType && !jsonType.test(type)) {
    throw invalid('The body must be application/json in UTF-8.')
  }
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw invalid('A compressed body is not supported; send it uncompressed.')
  }
  if (Number(length) > most) throw tooLarge(most)
  return readBytes(request, most)
}

/** The JSON of a body, or undefined when it is empty. Throws PAYLOAD_INVALID. */
export function parseBody(bytes: Uint8Array, most: number): Json | undefined {
  return bytes.length === 0 ? undefined : parse(decode(bytes), most)
}

function readBytes(request: IncomingMessage, most: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    let total = 0
    const leave = (): void => {
      request.off('data', take).off('end', end).off('error', fail).off('close', fail)
      request.on('error', () => undefined)
    }
    const take = (piece: Buffer): void => {
      pieces.push(piece)
      total += piece.length
      if (total <= most) return
      leave()
      request.resume()
      reject(tooLarge(most))
    }
    const end = (): void => {
      leave()
      resolve(Buffer.concat(pieces, total))
    }
    const fail = (cause?: unknown): void => {
      leave()
      reject(invalid('The body broke off.', cause))
    }
    request.on('data', take).on('end', end).on('error', fail).on('close', fail)
  })
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch (cause) {
    throw invalid('The body is not UTF-8.', cause)
  }
}

function parse(text: string, most: number): Json {
  try {
    return parseJson(text, { bytes: most, depth: bodyDepth, nodes: bodyNodes })
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    const { path, message } = error
    const issues = [{ path: path.slice(0, 1_000), message }]
    throw invalid(`The body is not valid: ${`${path.slice(0, 200)} ${message}`.trim()}.`, error, issues)
  }
}

function invalid(message: string, cause?: unknown, issues?: readonly { path: string; message: string }[]): ToolError {
  const why = cause === undefined ? {} : { cause }
  return new ToolError('PAYLOAD_INVALID', message, { ...why, ...(issues === undefined ? {} : { details: { issues } }) })
}

function tooLarge(bodyBytes: number): ToolError {
  return new ToolError('PAYLOAD_TOO_LARGE', `The body is longer than ${bodyBytes} bytes.`, { details: { bodyBytes } })
}

const idForm = /^[A-Za-z0-9._:-]{1,200}$/

/** Ids are used in queries and files; a text that cannot be an id is not looked up. Tools have ids of another form. */
export function checkedParams(
  { path }: { readonly path: string },
  params: { readonly [name: string]: string },
): { readonly [name: string]: string } {
  const { id } = params
  if (id === undefined || idForm.test(id) || path.startsWith('/v1/tools/')) return params
  throw new ToolError('NOT_FOUND', 'Nothing has this id.')
}

export function checked(value: JsonObject, check: MemberCheck): JsonObject {
  check(value)
  return value
}

/** Finding the nearest name takes time, and more issues do not help a reader. */
const mostIssues = 20
/** The rest of a longer name does not help to find the nearest one. */
const longestName = 64

/** Refuses an object with unknown or invalid members. */
export type MemberCheck = (value: JsonObject) => void

/** Compiles the check once. A `$ref` is not followed: the reader of that member checks it. */
export function memberCheck(
  what: string,
  members: { readonly [name: string]: JsonSchema },
  required: readonly string[] = [],
): MemberCheck {
  const known = Object.keys(members)
  const validator = compileSchema({ type: 'object', properties: withoutReferences(members), required })
  return (value) => {
    const unknown = Object.keys(value).filter((name) => !known.includes(name))
    const strange = unknown.slice(0, mostIssues).map((name) => unknownMember(name.slice(0, longestName), known))
    const issues = [...strange, ...validator.issues(value)].slice(0, mostIssues)
    if (issues.length === 0) return
    const text = issues.map(({ path, message }) => `${path === '' ? 'it' : path} ${message}`).join('; ')
    throw new ToolError('PAYLOAD_INVALID', `${what} is not valid: ${text.slice(0, 2_000)}.`, { details: { issues } })
  }
}

/** The object that a body or a query must be. */
export function asObject(what: string, value: Json): JsonObject {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw new ToolError('PAYLOAD_INVALID', `${what} must be a JSON object.`, {
    details: { issues: [{ path: '', message: 'must be an object' }] },
  })
}

function unknownMember(name: string, known: readonly string[]): Issue {
  const [near] = nearest(name, known, { limit: 1 })
  const hint = near === undefined ? '' : ` (did you mean "${near}"?)`
  const pointer = name.replaceAll('~', '~0').replaceAll('/', '~1')
  return { path: `/${pointer}`, message: `is not known here${hint}` }
}

function withoutReferences(members: { readonly [name: string]: JsonSchema }): { [name: string]: JsonSchema } {
  const open = (schema: unknown): unknown => {
    if (Array.isArray(schema)) return schema.map(open)
    if (typeof schema !== 'object' || schema === null) return schema
    if ('$ref' in schema) return true
    return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, open(value)]))
  }
  return open(members) as { [name: string]: JsonSchema }
}

/**
 * A query as JSON: texts become numbers where the schemas require numbers. An empty value is absent, unless its schema
 * allows it to be empty.
 */
export function readQuery(given: unknown, members: { readonly [name: string]: JsonSchema }): JsonObject {
  const query: JsonObject = {}
  for (const [name, value] of Object.entries(given as JsonObject)) {
    const schema = Object.hasOwn(members, name) ? members[name] : undefined
    const { type, minLength } = typeof schema === 'object' ? schema : {}
    if (value === '' && minLength !== 0) continue
    const number = type === 'integer' && typeof value === 'string' && /^[0-9]{1,16}$/.test(value)
    Object.defineProperty(query, name, { value: number ? Number(value) : value, enumerable: true })
  }
  return query
}
