import type { JsonSchema } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { formats } from '../formats/formats.ts'
import { abridgeKey, addIssue, type State, spend, spendText, sure, tooDeep } from '../node.ts'
import { assertion, type Keyword, limit, plural } from './keyword.ts'

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

/** Whether a value can be a schema at all. */
export function isSchema(value: unknown): value is JsonSchema {
  return typeof value === 'boolean' || isObject(value)
}

/** The type of a value, as a sentence names it. */
function nameOfType(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  if (typeof value === 'number' && !Number.isFinite(value)) return 'not a JSON number'
  return typeof value
}

export const type: Keyword<'type'> = {
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

/** A value for a message, truncated; a string is truncated before it is quoted, because it may be megabytes. */
function shown(value: unknown): string {
  const text = isScalar(value)
    ? (JSON.stringify(typeof value === 'string' ? value.slice(0, 60) : value) ?? String(value))
    : Array.isArray(value)
      ? 'an array'
      : 'an object'
  return text.length > 60 ? `${text.slice(0, 57)}…` : text
}

/**
 * Equality of JSON values; each value that is visited is paid for, as are long texts. Recursion is bounded by the first
 * value, which comes from a schema of limited depth.
 */
function equals(known: unknown, value: unknown, state: State): boolean {
  spend(state, 1)
  if (typeof known === 'string') return typeof value === 'string' && sameText(known, value, state)
  if (known === value) return true
  if (Array.isArray(known)) {
    if (!Array.isArray(value) || value.length !== known.length) return false
    return known.every((item, index) => equals(item, value[index], state))
  }
  if (!isObject(known) || !isObject(value)) return false
  const keys = Object.keys(known)
  const count = Object.keys(value).length
  spend(state, keys.length + count)
  if (keys.length !== count) return false
  return keys.every((key) => Object.hasOwn(value, key) && equals(known[key], value[key], state))
}

/** Texts of different length differ at once; others are read. */
function sameText(left: string, right: string, state: State): boolean {
  if (left.length !== right.length) return false
  spendText(state, left)
  return left === right
}

/** Indexes of two equal items, or undefined; linear in the size of the array. */
export function findDuplicate(items: readonly unknown[], state: State): readonly [number, number] | undefined {
  spend(state, items.length)
  if (items.length < 8 && items.every(isScalar)) return findSmall(items, state)
  const seen = new Map<unknown, number>()
  const texts = new Map<unknown, number>()
  for (let index = 0; index < items.length; index++) {
    const item = items[index]
    if (typeof item === 'string') spendText(state, item)
    const [known, key] = isScalar(item) ? [seen, item] : [texts, textOf(item, state, state.depth)]
    const earlier = known.get(key)
    if (earlier !== undefined) return [earlier, index]
    known.set(key, index)
  }
  return undefined
}

/** Compares each pair of a few scalars; long texts are paid for, the rest by the number of items. */
function findSmall(items: readonly unknown[], state: State): readonly [number, number] | undefined {
  for (let right = 1; right < items.length; right++) {
    const later = items[right]
    for (let left = 0; left < right; left++) {
      const earlier = items[left]
      const texts = typeof earlier === 'string' && typeof later === 'string'
      if (texts ? sameText(earlier, later, state) : earlier === later) return [left, right]
    }
  }
  return undefined
}

const isScalar = (value: unknown): boolean => typeof value !== 'object' || value === null

/** Text that is equal for equal values; keys are sorted, and each value is paid for. */
function textOf(value: unknown, state: State, depth: number): string {
  if (typeof value === 'string') spendText(state, value)
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  if (depth >= state.maxDepth) throw tooDeep
  if (Array.isArray(value)) {
    spend(state, 1 + value.length)
    return `[${value.map((item) => textOf(item, state, depth + 1)).join()}]`
  }
  if (!isObject(value)) return 'null'
  const keys = Object.keys(value).sort()
  spend(state, 1 + keys.length)
  return `{${keys.map((key) => `${JSON.stringify(key)}:${textOf(value[key], state, depth + 1)}`).join()}}`
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

export const enumeration: Keyword<'enum'> = {
  shape: 'enum',
  vocabulary: 'validation',
  rank: 1,
  build(value, site) {
    const shownValues = value.slice(0, 12).map(shown).join(', ') + (value.length > 12 ? ', …' : '')
    return assertion(site, membership(value), (instance) => `must be one of ${shownValues}, but is ${shown(instance)}`)
  },
}

export const constant: Keyword<'any'> = {
  shape: 'any',
  vocabulary: 'validation',
  rank: 1,
  build(value, site) {
    return assertion(site, membership([value]), (instance) => `must be ${shown(value)}, but is ${shown(instance)}`)
  },
}

type NumberLimit = Keyword<'number'>

const mustBe =
  (words: string) =>
  (limit: number, value: unknown): string =>
    `must be ${words} ${limit}, but is ${String(value)}`

export const minimum: NumberLimit = limit(
  'number',
  (least) => (value) => typeof value !== 'number' || value >= least,
  mustBe('at least'),
)

export const maximum: NumberLimit = limit(
  'number',
  (most) => (value) => typeof value !== 'number' || value <= most,
  mustBe('at most'),
)

export const exclusiveMinimum: NumberLimit = limit(
  'number',
  (bound) => (value) => typeof value !== 'number' || value > bound,
  mustBe('greater than'),
)

export const exclusiveMaximum: NumberLimit = limit(
  'number',
  (bound) => (value) => typeof value !== 'number' || value < bound,
  mustBe('less than'),
)

export const multipleOf: Keyword<'positive'> = limit(
  'positive',
  (divisor) => (value, state) => {
    if (typeof value !== 'number') return true
    if (!Number.isSafeInteger(value)) spend(state, 8)
    return isMultiple(value, divisor)
  },
  mustBe('a multiple of'),
)

/** Whether a number is a multiple of another, by the decimals that were written rather than by their binary neighbours. */
function isMultiple(value: number, divisor: number): boolean {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(divisor)) return value % divisor === 0
  if (!Number.isFinite(value)) return false
  const left = decimalOf(value)
  const right = decimalOf(divisor)
  const exponent = Math.min(left.exponent, right.exponent)
  return scaled(left, exponent) % scaled(right, exponent) === 0n
}

interface Decimal {
  readonly digits: bigint
  readonly exponent: number
}

/** `1.5e-7` is 15 times ten to the minus 8. */
function decimalOf(value: number): Decimal {
  const [mantissa = '0', power = '0'] = String(value).split('e')
  const [whole = '0', fraction = ''] = mantissa.split('.')
  return { digits: BigInt(whole + fraction), exponent: Number(power) - fraction.length }
}

function scaled(value: Decimal, exponent: number): bigint {
  return value.digits * 10n ** BigInt(value.exponent - exponent)
}

/** Whether a string has at least so many code points; looks no further than it must. */
function hasCodePoints(text: string, wanted: number): boolean {
  if (text.length < wanted) return false
  if (text.length >= wanted * 2) return true
  return codePoints(text) >= wanted
}

function codePoints(text: string): number {
  let count = 0
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    if (unit >= 0xd800 && unit < 0xdc00 && index + 1 < text.length) {
      const next = text.charCodeAt(index + 1)
      if (next >= 0xdc00 && next < 0xe000) index++
    }
    count++
  }
  return count
}

export const minLength: Keyword<'count'> = limit(
  'count',
  (least) => (value, state) => {
    if (typeof value !== 'string') return true
    if (value.length > 256) spend(state, value.length >> 8)
    return hasCodePoints(value, least)
  },
  (least, value) => `must have at least ${plural(least, 'character')}, but has ${codePoints(String(value))}`,
)

export const maxLength: Keyword<'count'> = limit(
  'count',
  (most) => (value, state) => {
    if (typeof value !== 'string' || value.length <= most) return true
    spend(state, value.length >> 8)
    return !hasCodePoints(value, most + 1)
  },
  (most, value) => `must have at most ${plural(most, 'character')}, but has ${codePoints(String(value))}`,
)

export const pattern: Keyword<'pattern'> = {
  shape: 'pattern',
  vocabulary: 'validation',
  rank: 2,
  build(source, site) {
    const { path, keyword } = site
    const compiled = site.pattern(source)
    const matches = (instance: unknown, state: State): boolean | undefined =>
      typeof instance !== 'string' || compiled.matches(instance, state)
    return {
      ...assertion(site, (instance, state) => sure(matches(instance, state)), String),
      report(instance, state, at) {
        const match = matches(instance, state)
        if (match === true) return
        const words = match === false ? 'must match' : 'is too long to check against'
        addIssue(state, at, path, keyword, `${words} the pattern ${abridgeKey(source)}`)
      },
    }
  },
}

export const format: Keyword<'string'> = {
  shape: 'string',
  vocabulary: 'format',
  rank: 2,
  build(name, site) {
    const matches = formats.get(name)
    if (!site.assertFormat || matches === undefined) return undefined
    return assertion(
      site,
      (instance, state) => {
        if (typeof instance !== 'string') return true
        spend(state, 1 + (instance.length >> 4))
        return matches(instance)
      },
      () => `must be in the format ${name}`,
    )
  },
}
