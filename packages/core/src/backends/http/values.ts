import type { Json, JsonObject, ParameterStyle } from '@gantry/contract'
import { badArgument } from './check.ts'

/** Where an argument goes, with everything said that a binding may leave out. */
export interface Place {
  readonly argument: string
  /** The name there. */
  readonly name: string
  readonly style: ParameterStyle
  readonly explode: boolean
  readonly reserved: boolean
  readonly json: boolean
}

/** A name and its value, both ready for a URL. */
export type Pair = readonly [name: string, value: string]

/** Percent-encodes everything but letters, digits and `-._~`, so that the text cannot mean anything where it stands. */
export function encode(argument: string, value: string): string {
  if (!value.isWellFormed()) throw badArgument(argument, 'holds half of a character pair')
  return encodeURIComponent(value).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

/** The same, but the reserved characters that cannot end or split a query value stay as they are. */
function encodeReserved(argument: string, value: string): string {
  return encode(argument, value).replace(/%(?:3a|2f|3f|40|21|24|27|28|29|2a|2c|3d)/gi, decodeURIComponent)
}

/** A value as one text: a string as it is, everything else as JSON. */
export function asText(value: Json): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** A path segment, or a header's value, in the styles `simple`, `label` and `matrix` of RFC 6570. */
export function writeText(place: Place, given: Json, encodeAs: typeof encode): string {
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

/** Pairs for a query, a cookie or a form, in the styles of OpenAPI; null and empty lists leave nothing. */
export function writePairs(place: Place, value: Json): Pair[] {
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

/** `name[key][key]=value`; a list repeats its name, or counts when its elements have members themselves. */
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

function isComposite(value: Json): value is Json[] | JsonObject {
  return typeof value === 'object' && value !== null
}
