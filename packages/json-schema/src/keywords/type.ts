import { assertion, type Keyword } from './keyword.ts'

const bits = { null: 1, boolean: 2, number: 4, integer: 8, string: 16, array: 32, object: 64 } as const

/** The names JSON Schema gives to types. */
export const typeNames: readonly string[] = Object.keys(bits)

const isTypeName = (name: string): name is keyof typeof bits => Object.hasOwn(bits, name)

/** The bits of a `type` keyword's value. */
export function typeBits(type: unknown): number {
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
export function nameOfType(value: unknown): string {
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
