import { equals } from '../equality.ts'
import { type State, spend } from '../node.ts'
import { assertion, type Keyword } from './keyword.ts'

const isScalar = (value: unknown): boolean => typeof value !== 'object' || value === null

/** A value as a sentence shows it, cut when long. */
function shown(value: unknown): string {
  const text = isScalar(value)
    ? (JSON.stringify(value) ?? String(value))
    : Array.isArray(value)
      ? 'an array'
      : 'an object'
  return text.length > 60 ? `${text.slice(0, 57)}…` : text
}

/** Membership among values: a list while it is short, a set when long, deep equality for objects. */
function membership(values: readonly unknown[]): (value: unknown, state: State) => boolean {
  const scalars = values.filter(isScalar)
  const deep = values.filter((value) => !isScalar(value))
  const set = scalars.length > 8 ? new Set(scalars) : undefined
  return (value, state) => {
    if (typeof value !== 'object' || value === null) return set === undefined ? scalars.includes(value) : set.has(value)
    if (deep.length === 0) return false
    spend(state, deep.length)
    return deep.some((known) => equals(known, value))
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
