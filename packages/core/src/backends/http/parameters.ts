import { type Issue, type Json, type JsonObject, type ParameterStyle, ToolError } from '@gantry/contract'
import { isComposite } from '@gantry/contract/internal/json'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'

/** A parameter with all defaults applied. */
export interface ParameterTarget {
  readonly argument: string
  /** The name in the request. */
  readonly name: string
  readonly style: ParameterStyle
  readonly explode: boolean
  readonly reserved: boolean
  readonly json: boolean
}

/** A name and its value, both URL-encoded. */
export type Pair = readonly [name: string, value: string]

/** INPUT_INVALID for an argument that the binding cannot send; nothing was sent. */
export function badArgument(argument: string, message: string): ToolError {
  const issue: Issue = { path: `/${escapeSegment(argument)}`, message }
  return new ToolError('INPUT_INVALID', `The argument ${issue.path} ${message}.`, { details: { issues: [issue] } })
}

/** Percent-encodes everything but letters, digits and `-._~`, so that the text has no syntactic meaning in a URL. */
export function encode(argument: string, value: string): string {
  if (!value.isWellFormed()) throw badArgument(argument, 'holds half of a character pair')
  return encodeURIComponent(value).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

/** Like `encode`, but keeps reserved characters that cannot end or split a query value. */
function encodeReserved(argument: string, value: string): string {
  return encode(argument, value).replace(/%(?:3a|2f|3f|40|21|24|27|28|29|2a|2c|3d)/gi, decodeURIComponent)
}

/** A value as text: a string unchanged, any other value as JSON. */
export function asText(value: Json): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** A path segment, or a header's value, in the styles `simple`, `label` and `matrix` of RFC 6570. */
export function writeText(place: ParameterTarget, given: Json, encodeAs: typeof encode): string {
  const { style, name, explode } = place
  const value = place.json ? JSON.stringify(given) : given
  const write = (item: Json) => encodeAs(place.argument, asText(item))
  if (style === 'matrix') return matrix(encode(place.argument, name), explode, value, write)
  const [before, between] = style === 'label' ? ['.', explode ? '.' : ','] : ['', ',']
  return before + (isComposite(value) ? members(value, explode, write).join(between) : write(value))
}

function matrix(name: string, explode: boolean, value: Json, write: (item: Json) => string): string {
  const pair = (key: string, text: string) => (text === '' ? `;${key}` : `;${key}=${text}`)
  if (!isComposite(value)) return pair(name, write(value))
  if (!explode) return pair(name, members(value, false, write).join(','))
  if (Array.isArray(value)) return value.map((item) => pair(name, write(item))).join('')
  return Object.entries(value)
    .map(([key, item]) => pair(write(key), write(item)))
    .join('')
}

/** Pairs for a query, a cookie or a form, in the styles of OpenAPI; null and empty lists give no pair. */
export function writePairs(place: ParameterTarget, value: Json): Pair[] {
  const { argument, style, explode } = place
  const name = encode(argument, place.name)
  const write = (item: Json) => (place.reserved ? encodeReserved : encode)(argument, asText(item))
  if (value === null) return []
  if (place.json) return [[name, write(JSON.stringify(value))]]
  if (!isComposite(value)) return [[name, write(value)]]
  if (style === 'deepObject') return deepPairs(argument, name, value, write)
  if (explode) {
    if (Array.isArray(value)) return value.map((item) => [name, write(item)])
    return Object.entries(value).map(([key, item]) => [encode(argument, key), write(item)])
  }
  const parts = members(value, false, write)
  return parts.length === 0 ? [] : [[name, parts.join(separators[style] ?? ',')]]
}

const separators: { readonly [style: string]: string } = { spaceDelimited: '%20', pipeDelimited: '%7C' }

/** `name[key][key]=value`; a list repeats its name, or uses indexes when its elements are objects. */
function deepPairs(argument: string, name: string, value: Json, write: (item: Json) => string): Pair[] {
  if (value === null) return []
  if (!isComposite(value)) return [[name, write(value)]]
  const counted = Array.isArray(value) && value.some(isComposite)
  return Object.entries(value).flatMap(([key, item]) => {
    const inner = Array.isArray(value) && !counted ? name : `${name}%5B${encode(argument, key)}%5D`
    return deepPairs(argument, inner, item, write)
  })
}

/** The elements of a list; the keys and values of an object, together when exploded. */
function members(value: Json[] | JsonObject, explode: boolean, write: (item: Json) => string): string[] {
  if (Array.isArray(value)) return value.map(write)
  return Object.entries(value).flatMap(([key, item]) =>
    explode ? [`${write(key)}=${write(item)}`] : [write(key), write(item)],
  )
}

/** One segment of a path: literal text and parameters. */
export type Segment = readonly (string | ParameterTarget)[]

const braces = /\{([^{}]+)\}/g
const dots = /^(?:\.|%2e){1,2}$/i

/** Why a path template is invalid. */
export function templateFault(template: string): string | undefined {
  const literal = template.replace(braces, 'x')
  if (/[{}]/.test(literal)) return 'has an unmatched or empty pair of braces'
  if (/[?#\\\s\p{C}]/u.test(literal)) return 'must be only a path; put a query into query'
  return literal.split('/').some((segment) => dots.test(segment)) ? 'must not have . or .. as a segment' : undefined
}

/** The names in braces, in order. */
export function namesIn(template: string): string[] {
  return [...template.matchAll(braces)].map((match) => match[1] ?? '')
}

/** Parses a valid template; `placeOf` returns the parameter of a name in braces. */
export function readTemplate(template: string, placeOf: (name: string) => ParameterTarget): Segment[] {
  if (template === '') return []
  const parts = template.replace(/^\//, '').split('/')
  return parts.map((segment) =>
    segment.split(/(\{[^{}]+\})/).map((part) => (part.startsWith('{') ? placeOf(part.slice(1, -1)) : part)),
  )
}

/**
 * Expands the path with its arguments. An argument cannot leave its segment: an empty value and the dot segments `.` and
 * `..` are refused, everything else is encoded.
 */
export function expandPath(segments: readonly Segment[], args: JsonObject): string {
  return segments.map((segment) => `/${expandSegment(segment, args)}`).join('')
}

function expandSegment(segment: Segment, args: JsonObject): string {
  let argument: string | undefined
  const parts = segment.map((part) => {
    if (typeof part === 'string') return part
    argument = part.argument
    return expandTarget(part, args)
  })
  const text = parts.join('')
  if (argument !== undefined && dots.test(text))
    throw badArgument(argument, 'must not turn a path segment into . or ..')
  return text
}

function expandTarget(place: ParameterTarget, args: JsonObject): string {
  const value = Object.hasOwn(args, place.argument) ? args[place.argument] : undefined
  if (value === undefined || value === null) throw badArgument(place.argument, 'is part of the path and must be given')
  const text = writeText(place, value, encode)
  if (text === '') throw badArgument(place.argument, 'is part of the path and must not be empty')
  return text
}

/** The base of all requests: an origin, and a path without a trailing slash. */
export interface Base {
  readonly origin: string
  readonly path: string
}

/** Why a base URL is invalid. */
export function baseFault(text: string): string | undefined {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) return 'must be an http or https URL'
  if (url.username !== '' || url.password !== '') return 'must hold no credentials; use auth'
  return /[?#]/.test(text) ? 'must end with its path; a query goes into query' : undefined
}

export function readBase(text: string): Base {
  const url = new URL(text)
  return { origin: url.origin, path: url.pathname.replace(/(?<!\/)\/+$/, '') }
}

/** The URL below the base. The final check that no argument can redirect a request elsewhere. */
export function urlBelow(base: Base, path: string, query: string): URL {
  const text = `${base.origin}${base.path}${path}${query === '' ? '' : `?${query}`}`
  const url = URL.parse(text)
  if (url !== null && url.origin === base.origin && isBelow(url.pathname, base.path)) return url
  const issue: Issue = { path: '', message: 'lead outside the base URL' }
  throw new ToolError('INPUT_INVALID', 'The arguments lead outside the base URL.', { details: { issues: [issue] } })
}

function isBelow(path: string, base: string): boolean {
  return path === base || path.startsWith(`${base}/`)
}
