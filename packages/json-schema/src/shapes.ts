import { suggestType } from './hints.ts'
import { verifyAnchor, verifyId, verifyReference } from './identifiers.ts'
import { isObject, type Shape } from './keywords/keyword.ts'
import { typeNames } from './keywords/type.ts'
import { join } from './node.ts'
import type { Spot } from './spot.ts'
import { verifyValues } from './values.ts'

/** Checks one keyword's value and queues the sub-schemas in it. */
export type Verify = (value: unknown, spot: Spot) => void

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
