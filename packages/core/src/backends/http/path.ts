import { type Issue, type JsonObject, ToolError } from '@gantry/contract'
import { badArgument } from './check.ts'
import { encode, type Place, writeText } from './values.ts'

/** One segment of a path: text as it stands, and places for arguments. */
export type Segment = readonly (string | Place)[]

const braces = /\{([^{}]+)\}/g
const dots = /^(?:\.|%2e){1,2}$/i

/** What is wrong with the text of a path template. */
export function templateFault(template: string): string | undefined {
  const literal = template.replace(braces, 'x')
  if (/[{}]/.test(literal)) return 'has a brace without its partner, or an empty one'
  if (/[?#\\\s\p{C}]/u.test(literal)) return 'must be a path alone; a query goes into query'
  return literal.split('/').some((segment) => dots.test(segment)) ? 'must not have . or .. as a segment' : undefined
}

/** The names in braces, in their order. */
export function namesIn(template: string): string[] {
  return [...template.matchAll(braces)].map((match) => match[1] ?? '')
}

/** Splits a template that has no fault; `placeOf` says what a name in braces stands for. */
export function readTemplate(template: string, placeOf: (name: string) => Place): Segment[] {
  if (template === '') return []
  const parts = template.replace(/^\//, '').split('/')
  return parts.map((segment) =>
    segment.split(/(\{[^{}]+\})/).map((part) => (part.startsWith('{') ? placeOf(part.slice(1, -1)) : part)),
  )
}

/**
 * The path with its arguments. Each argument stays within its segment, whatever it holds: what would vanish (nothing)
 * or climb (`.` and `..`) is refused, everything else is encoded.
 */
export function expandPath(segments: readonly Segment[], args: JsonObject): string {
  return segments.map((segment) => `/${expandSegment(segment, args)}`).join('')
}

function expandSegment(segment: Segment, args: JsonObject): string {
  let argument: string | undefined
  const parts = segment.map((part) => {
    if (typeof part === 'string') return part
    argument = part.argument
    return expandPlace(part, args)
  })
  const text = parts.join('')
  if (argument !== undefined && dots.test(text)) throw badArgument(argument, 'may not make . or .. of a path segment')
  return text
}

function expandPlace(place: Place, args: JsonObject): string {
  const value = Object.hasOwn(args, place.argument) ? args[place.argument] : undefined
  if (value === undefined || value === null) throw badArgument(place.argument, 'is part of the path and must be given')
  const text = writeText(place, value, encode)
  if (text === '') throw badArgument(place.argument, 'is part of the path and may not be empty')
  return text
}

/** Where a backend's requests go: an origin, and a path that ends without a slash. */
export interface Base {
  readonly origin: string
  readonly path: string
}

/** What is wrong with a base URL. */
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

/** The URL below the base; the last look at it, because nothing that a call sends may go anywhere else. */
export function urlBelow(base: Base, path: string, query: string): URL {
  const text = `${base.origin}${base.path}${path}${query === '' ? '' : `?${query}`}`
  const url = URL.parse(text)
  if (url !== null && url.origin === base.origin && isBelow(url.pathname, base.path)) return url
  const issue: Issue = { path: '', message: 'lead out of the base URL' }
  throw new ToolError('INPUT_INVALID', 'The arguments lead out of the base URL.', { details: { issues: [issue] } })
}

function isBelow(path: string, base: string): boolean {
  return path === base || path.startsWith(`${base}/`)
}
