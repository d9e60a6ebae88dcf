import { equals } from '../equality.ts'
import { type State, spend } from '../node.ts'
import { assertion, type Keyword } from './keyword.ts'

const bits = { null: 1, boolean: 2, number: 4, integer: 8, string: 16, array: 32, object: 64 } as const

/** The names JSON Schema gives to types. */
export const typeNames: readonly string[] = Object.keys(bits)

const isTypeName = (name: string): name is keyof typeof bits => Object.hasOwn(bits, name)

/** The bits of a `type` keyword's value. */
function typeBits(type: unknown): number {
  let mask = 0
  for (const name of Array.isArray(type) ? type : [type]) {
    if (typeof name === 'string' && isTypeName(name)) mask |= bits[name]
  }
  return mask
}

/** Whether a value is of one of the types; a number without a fraction is an integer, however it was written. */
export function hasType(mask: number, value: unknown): boolean {
  switch (typeof value) {
    case 'string':
      return (mask & bits.string) !== 0
    case 'number':
      return (mask & bits.number) !== 0
        ? Number.isFinite(value)
        : (mask & bits.integer) !== 0 && Number.isInteger(value)
    case 'boolean':
      return (mask & bits.boolean) !== 0
    case 'object':
      if (value === null) return (mask & bits.null) !== 0
      return (mask & (Array.isArray(value) ? bits.array : bits.object)) !== 0
    default:
      return false
  }
}

/** The type of a value, as a sentence names it. */
function nameOfType(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  if (typeof value === 'number' && !Number.isFinite(value)) return 'not a JSON number'
  return typeof value
}

export const type: Keyword = {
  shape: 'type',
  vocabulary: 'validation',
  rank: 0,
  build(value, site) {
    const mask = typeBits(value)
    const wanted = (Array.isArray(value) ? value : [value]).join(' or ')
    const node = assertion(
      site,
      (instance) => hasType(mask, instance),
      (instance) => `must be ${wanted}, but is ${nameOfType(instance)}`,
    )
    node.types = mask
    node.covered = value === 'object' && Object.hasOwn(site.schema, 'properties')
    return node
  },
}

const isScalar = (value: unknown): boolean => typeof value !== 'object' || value === null

/** A value as a sentence shows it, cut when long; a text before it is quoted, because it may be megabytes. */
function shown(value: unknown): string {
  const text = isScalar(value)
    ? (JSON.stringify(typeof value === 'string' ? value.slice(0, 60) : value) ?? String(value))
    : Array.isArray(value)
      ? 'an array'
      : 'an object'
  return text.length > 60 ? `${text.slice(0, 57)}…` : text
}

/**
 * Membership among values: a list while it is short, a set when long, deep equality for objects. Every comparison of
 * long texts and every value inside an object is paid for; short scalars are covered by what the caller pays.
 */
function membership(values: readonly unknown[]): (value: unknown, state: State) => boolean {
  const scalars = values.filter(isScalar)
  const deep = values.filter((value) => !isScalar(value))
  const set = scalars.length > 8 ? new Set(scalars) : undefined
  const comparisons = set === undefined ? scalars.length : 1
  const longest = scalars.reduce<number>(
    (most, known) => Math.max(most, typeof known === 'string' ? known.length : 0),
    0,
  )
  return (value, state) => {
    if (typeof value === 'string') {
      if (value.length > longest) return false
      if (value.length >= 64) spend(state, comparisons * (value.length >> 6))
    }
    if (isScalar(value)) return set === undefined ? scalars.includes(value) : set.has(value)
    return deep.some((known) => equals(known, value, state))
  }
}

export const enumeration: Keyword = {
  shape: 'enum',
  vocabulary: 'validation',
  rank: 1,
  build(value, site) {
    const values = value as readonly unknown[]
    const shownValues = values.slice(0, 12).map(shown).join(', ') + (values.length > 12 ? ', …' : '')
    return assertion(site, membership(values), (instance) => `must be one of ${shownValues}, but is ${shown(instance)}`)
  },
}

export const constant: Keyword = {
  shape: 'any',
  vocabulary: 'validation',
  rank: 1,
  build(value, site) {
    return assertion(site, membership([value]), (instance) => `must be ${shown(value)}, but is ${shown(instance)}`)
  },
}
