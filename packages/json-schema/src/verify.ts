import type { JsonSchema } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { Shape } from './keywords/keyword.ts'
import { typeNames } from './keywords/value.ts'
import { type Location, resolveUri } from './location.ts'
import { join } from './node.ts'
import type { Registry } from './registry.ts'

/** Checks one keyword's value and queues the sub-schemas in it. */
type Verify = (value: unknown, spot: Spot) => void

/** A shape that a value has or has not. */
function plain(holds: (value: unknown) => boolean, message: string): Verify {
  return (value, spot) => {
    if (!holds(value)) spot.refuse(message)
  }
}

function verifyMembers(value: unknown, spot: Spot, visit: (member: unknown, at: string, name: string) => void): void {
  if (!isObject(value)) {
    spot.refuse('must be an object')
    return
  }
  const { path } = spot
  for (const name of Object.keys(value)) {
    spot.weigh(name)
    visit(value[name], join(path, name), name)
  }
}

function verifyList(value: readonly unknown[], spot: Spot): void {
  const { path } = spot
  for (let index = 0; index < value.length; index++) spot.child(value[index], join(path, index))
}

function verifyNames(value: unknown, spot: Spot, path: string): void {
  if (!Array.isArray(value)) {
    const hint =
      spot.keyword === 'required' && typeof value === 'boolean' ? ', on the object that has the property' : ''
    spot.refuse(`must be an array of property names${hint}`, path)
    return
  }
  if (hasRepeats(value)) spot.refuse('must name no property twice', path)
  for (const [index, name] of value.entries()) {
    if (typeof name === 'string') spot.weigh(name)
    else spot.refuse('must be a property name, which is a string', join(path, index))
  }
}

/** Most lists are short, and a set for each would be the costliest part of reading a schema. */
function hasRepeats(list: readonly unknown[]): boolean {
  if (list.length > 16) return new Set(list).size !== list.length
  return list.some((item, index) => list.indexOf(item) !== index)
}

function verifyPattern(source: string, spot: Spot, path: string): void {
  spot.weigh(source)
  try {
    spot.registry.patternOf(source)
  } catch (error) {
    spot.refuse(error instanceof Error ? error.message : String(error), path)
  }
}

function verifyType(value: unknown, spot: Spot): void {
  if (typeof value === 'string' && typeNames.includes(value)) return
  const list: readonly unknown[] = Array.isArray(value) ? value : [value]
  if (list.length === 0) spot.refuse('must name at least one type')
  if (new Set(list).size !== list.length) spot.refuse('must name no type twice')
  for (const [index, name] of list.entries()) {
    if (typeof name === 'string' && typeNames.includes(name)) continue
    const path = Array.isArray(value) ? join(spot.path, index) : spot.path
    spot.refuse(`must be one of ${typeNames.join(', ')}${suggestType(name)}`, path)
  }
}

export const shapes: Readonly<Record<Shape, Verify>> = {
  any: (value, spot) => verifyValues([value], spot),
  enum: (value, spot) => (Array.isArray(value) ? verifyValues(value, spot) : spot.refuse('must be an array of values')),
  type: verifyType,
  number: plain(Number.isFinite, 'must be a number'),
  positive: plain((value) => typeof value === 'number' && value > 0, 'must be a number greater than 0'),
  count: plain((value) => Number.isInteger(value) && Number(value) >= 0, 'must be an integer of at least 0'),
  boolean: plain((value) => typeof value === 'boolean', 'must be true or false'),
  string: plain((value) => typeof value === 'string', 'must be a string'),
  pattern(value, spot) {
    if (typeof value === 'string') verifyPattern(value, spot, spot.path)
    else spot.refuse('must be a regular expression in a string')
  },
  patterns(value, spot) {
    verifyMembers(value, spot, (schema, at, source) => {
      verifyPattern(source, spot, at)
      spot.child(schema, at)
    })
  },
  schema(value, spot) {
    if (!Array.isArray(value) || spot.keyword !== 'items') spot.child(value)
    else spot.refuse('must be one schema; a list belongs in prefixItems')
  },
  schemaList(value, spot) {
    if (Array.isArray(value) && value.length > 0) verifyList(value, spot)
    else spot.refuse('must be an array of at least one schema')
  },
  items(value, spot) {
    if (Array.isArray(value)) verifyList(value, spot)
    else spot.child(value)
  },
  schemaMap: (value, spot) => verifyMembers(value, spot, (schema, at) => spot.child(schema, at)),
  names: (value, spot) => verifyNames(value, spot, spot.path),
  namesMap: (value, spot) => verifyMembers(value, spot, (names, at) => verifyNames(names, spot, at)),
  dependencies(value, spot) {
    verifyMembers(value, spot, (member, at) => {
      if (Array.isArray(member)) verifyNames(member, spot, at)
      else spot.child(member, at)
    })
  },
  reference: verifyReference,
  anchor: verifyAnchor,
  id: verifyId,
}

const anchorName = /^[A-Za-z_][-A-Za-z0-9._]*$/

/** Notes a reference; it is resolved when every name is known. */
function verifyReference(value: unknown, spot: Spot): void {
  if (typeof value !== 'string') {
    spot.refuse('must be a URI reference in a string')
    return
  }
  const keyword = spot.keyword === '$dynamicRef' ? '$dynamicRef' : '$ref'
  if (keyword === '$dynamicRef') spot.registry.dynamic = true
  spot.registry.references.push({ location: spot.location, keyword, value })
}

function verifyAnchor(value: unknown, spot: Spot): void {
  if (typeof value === 'string' && anchorName.test(value)) addAnchor(value, spot)
  else spot.refuse('must be a name: a letter or _, then letters, digits, -, _ and .')
}

function addAnchor(name: string, spot: Spot): void {
  const { location } = spot
  const { resource } = location
  const other = resource.anchors?.get(name)
  if (other !== undefined && other.schema !== location.schema)
    spot.refuse(`is the anchor of another schema too: ${name}`)
  resource.anchors ??= new Map()
  resource.anchors.set(name, location)
  if (spot.keyword !== '$dynamicAnchor') return
  resource.dynamicAnchors ??= new Map()
  resource.dynamicAnchors.set(name, location)
}

/** The base URI was taken when the location was made; this refuses a bad `$id` and reads draft-07's anchors. */
function verifyId(value: unknown, spot: Spot): void {
  const { dialect, uri } = spot.location.resource
  if (typeof value !== 'string' || resolveUri(value, uri) === undefined) {
    spot.refuse('must be a URI reference in a string')
    return
  }
  const fragment = value.slice(value.indexOf('#') + 1)
  if (!value.includes('#') || fragment === '') return
  if (dialect.legacy) addAnchor(fragment, spot)
  else spot.refuse('must have no fragment; a name belongs in $anchor')
}

/** Limits the number, depth and length of values in `const` and `enum`, level by level so that depth cannot exhaust the stack. */
function verifyValues(values: readonly unknown[], spot: Spot): void {
  const { limits } = spot.registry
  let level: readonly unknown[] = values
  let count = 0
  for (let depth = 0; level.length > 0; depth++) {
    count += level.length
    const problem =
      count > limits.values
        ? `holds more than ${limits.values} values`
        : depth > limits.depth
          ? `holds values deeper than ${limits.depth} levels`
          : undefined
    if (problem !== undefined) {
      spot.refuse(problem)
      return
    }
    level = membersOf(level, spot)
  }
}

/** The values inside a list of values. */
function membersOf(level: readonly unknown[], spot: Spot): unknown[] {
  const members: unknown[] = []
  for (const value of level) {
    if (typeof value === 'string') spot.weigh(value)
    else if (Array.isArray(value)) for (const item of value) members.push(item)
    else if (typeof value === 'object' && value !== null) {
      for (const [key, member] of Object.entries(value)) {
        spot.weigh(key)
        members.push(member)
      }
    } else if (value !== null && typeof value !== 'boolean' && !Number.isFinite(value)) {
      spot.refuse('must hold only JSON values')
    }
  }
  return members
}

const otherNames: ReadonlyMap<string, string> = new Map([
  ['int', 'integer'],
  ['long', 'integer'],
  ['float', 'number'],
  ['double', 'number'],
  ['decimal', 'number'],
  ['bool', 'boolean'],
  ['str', 'string'],
  ['text', 'string'],
  ['list', 'array'],
  ['tuple', 'array'],
  ['dict', 'object'],
  ['map', 'object'],
  ['none', 'null'],
  ['nil', 'null'],
  ['undefined', 'null'],
])

/** `; did you mean string?` for a name that is near one or means the same elsewhere. */
function suggestType(name: unknown): string {
  if (typeof name !== 'string' || name.length > 20) return ''
  const lower = name.toLowerCase()
  if (lower === 'any') return '; leave type out to allow any'
  const meant = otherNames.get(lower) ?? typeNames.find((known) => distance(lower, known) <= 2)
  return meant === undefined ? '' : `; did you mean ${meant}?`
}

/** Edits that turn one short word into another. */
function distance(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, index) => index)
  for (let i = 1; i <= left.length; i++) {
    const next = [i]
    for (let j = 1; j <= right.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (left[i - 1] === right[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[right.length] ?? 0
}

/** One keyword in one schema while it is verified. */
export class Spot {
  readonly keyword: string
  readonly location: Location
  readonly registry: Registry

  constructor(keyword: string, location: Location, registry: Registry) {
    this.keyword = keyword
    this.location = location
    this.registry = registry
  }

  get path(): string {
    return join(this.location.path, this.keyword)
  }

  refuse(message: string, path: string = this.path): void {
    this.registry.refuse(path, this.keyword, message)
  }

  /** Queues a sub-schema; a value that is not a schema is refused when it is processed. */
  child(schema: unknown, path: string = this.path): void {
    this.registry.addChild(schema as JsonSchema, path, this.location.depth + 1, this.location.resource)
  }

  /** Counts text that a hostile schema could make large. */
  weigh(text: string): void {
    this.registry.text += text.length
  }
}
