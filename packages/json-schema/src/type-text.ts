import type { JsonSchema } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'

interface TypeTextOptions {
  /** The type of a value that the schema does not describe. */
  readonly anything: 'unknown' | 'any'
  /** Of the first line; further lines begin with it. */
  readonly indent?: string
}

/** Limits of parts and depth; the type beyond them is `anything`. */
const mostParts = 400
const deepest = 12
const mostLiterals = 60
const longestLiteral = 200
const longestDoc = 160
const widest = 90

type Keywords = { readonly [keyword: string]: unknown }

/**
 * A JSON Schema as a TypeScript type. Hostile schemas are only long: every name and text of theirs is quoted, comments
 * cannot be left, and references that come back to themselves, go elsewhere or go too deep are anything.
 */
export function typeText(schema: JsonSchema, { anything, indent = '' }: TypeTextOptions): string {
  const open = new Set<unknown>()
  /** Types that need parentheses next to another sign. */
  const compound = new Set<string>()
  let parts = 0

  const typeOf = (part: unknown, depth: number, margin: string): string => {
    parts += 1
    if (part === false) return 'never'
    if (!isObject(part) || parts > mostParts || depth > deepest || open.has(part)) return anything
    open.add(part)
    const made = joined(sidesOf(part, depth, margin), ' & ')
    open.delete(part)
    return made
  }
  const sidesOf = (part: Keywords, depth: number, margin: string): string[] => {
    const all = (list: unknown): string[] => listOf(list).map((each) => typeOf(each, depth + 1, margin))
    const either = [...listOf(part.anyOf), ...listOf(part.oneOf)]
    return [
      literals(part) ?? plainOf(part, depth, margin),
      typeof part.$ref === 'string' ? typeOf(pointed(schema, part.$ref), depth + 1, margin) : anything,
      ...all(part.allOf),
      either.length === 0 ? anything : joined(all(either), ' | '),
    ]
  }
  const literals = (part: Keywords): string | undefined => {
    const values = literalsOf(part)
    return values === undefined || values.length === 1 ? values?.[0] : signed(values.join(' | '))
  }
  const plainOf = (part: Keywords, depth: number, margin: string): string => {
    const types = part.type === undefined ? impliedBy(part) : Array.isArray(part.type) ? part.type : [part.type]
    return types.length === 0
      ? anything
      : joined(
          types.map((type) => ofType(type, part, depth, margin)),
          ' | ',
        )
  }
  const ofType = (type: unknown, part: Keywords, depth: number, margin: string): string => {
    if (type === 'object') return objectOf(part, depth, margin)
    if (type === 'array') return arrayOf(part, depth, margin)
    if (type === 'integer') return 'number'
    return type === 'string' || type === 'number' || type === 'boolean' || type === 'null' ? type : anything
  }
  const arrayOf = (part: Keywords, depth: number, margin: string): string => {
    const rest = part.items === undefined ? anything : typeOf(part.items, depth + 1, margin)
    const first = listOf(part.prefixItems)
    if (first.length === 0) return `${wrapped(rest)}[]`
    const least = typeof part.minItems === 'number' ? part.minItems : 0
    const members = first.map((each, index) => `${wrapped(typeOf(each, depth + 1, margin))}${index < least ? '' : '?'}`)
    return `[${[...members, ...(rest === 'never' ? [] : [`...${wrapped(rest)}[]`])].join(', ')}]`
  }
  const objectOf = (part: Keywords, depth: number, margin: string): string => {
    const { properties, required, additionalProperties, patternProperties } = part
    const names = isObject(properties) ? Object.keys(properties) : []
    const inner = `${margin}  `
    const members = names.map((name) => memberOf(name, part, listOf(required).includes(name), depth, inner))
    const others = names.length === 0 && isObject(additionalProperties) && patternProperties === undefined
    const isOpen = additionalProperties === true || isObject(additionalProperties) || patternProperties !== undefined
    if (others) members.push(`[key: string]: ${typeOf(additionalProperties, depth + 1, inner)}`)
    else if (isOpen || (names.length === 0 && additionalProperties !== false))
      members.push(`[key: string]: ${anything}`)
    const short = `{ ${members.join('; ')} }`
    if (members.length === 0) return '{ [key: string]: never }'
    if (short.length <= widest && !short.includes('\n')) return short
    return `{\n${members.map((member) => `${inner}${member}\n`).join('')}${margin}}`
  }
  const memberOf = (name: string, part: Keywords, required: boolean, depth: number, margin: string): string => {
    const schema = isObject(part.properties) ? part.properties[name] : undefined
    const doc = docOf(schema)
    const text = `${isIdentifier(name) ? name : quoted(name)}${required ? '' : '?'}: ${typeOf(schema, depth + 1, margin)}`
    return doc === '' ? text : `/** ${doc} */\n${margin}${text}`
  }
  /** Anything adds nothing to a side of `&`, and takes everything of one of `|`. */
  const joined = (sides: readonly string[], sign: ' & ' | ' | '): string => {
    const kept = [...new Set(sides.filter((side) => side !== anything))]
    if (kept.length === 0 || (sign === ' | ' && kept.length < new Set(sides).size)) return anything
    if (kept.length === 1) return kept[0] ?? anything
    return signed(kept.map(wrapped).join(sign))
  }
  const signed = (type: string): string => {
    compound.add(type)
    return type
  }
  const wrapped = (type: string): string => (compound.has(type) ? `(${type})` : type)
  return typeOf(schema, 0, indent)
}

/** The description of a schema, escaped for a comment on one line. */
export function commentText(text: string, longest = longestDoc): string {
  const plain = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ').trim()
  const short = plain.length <= longest ? plain : `${plain.slice(0, longest - 1).toWellFormed()}…`
  return short.replaceAll('*/', '* /').replaceAll('@ts-', '@ ts-')
}

function docOf(schema: unknown): string {
  if (!isObject(schema)) return ''
  const { description, default: usual } = schema
  const said = typeof description === 'string' ? commentText(description) : ''
  const isScalar = usual !== undefined && (usual === null || typeof usual !== 'object')
  const given = isScalar ? commentText(`Default: ${JSON.stringify(usual)}`, 60) : ''
  return [said, given].filter((part) => part !== '').join(' ')
}

/** The values that a schema lists, when they are few and plain; undefined when its other keywords say more. */
function literalsOf({ const: only, enum: several }: Keywords): readonly string[] | undefined {
  const values = only === undefined ? several : [only]
  if (!Array.isArray(values) || values.length === 0 || values.length > mostLiterals) return undefined
  const texts = new Set<string>()
  for (const value of values) {
    const text = typeof value === 'object' && value !== null ? undefined : JSON.stringify(value)
    if (text === undefined || text.length > longestLiteral) return undefined
    texts.add(text)
  }
  return [...texts]
}

function impliedBy({ properties, items, prefixItems }: Keywords): readonly string[] {
  if (isObject(properties)) return ['object']
  return items === undefined && prefixItems === undefined ? [] : ['array']
}

/** The target of a reference within the same schema; undefined for any other. */
function pointed(root: JsonSchema, reference: string): unknown {
  if (reference === '#') return root
  if (!reference.startsWith('#/')) return undefined
  let at: unknown = root
  for (const segment of reference.slice(2).split('/')) {
    const key = decoded(segment).replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined
    at = Reflect.get(at, key)
  }
  return at
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

function quoted(name: string): string {
  return JSON.stringify(name)
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

const identifier = /^[A-Za-z_$][A-Za-z0-9_$]{0,199}$/

/** Whether a name is a valid unquoted member in TypeScript. */
export function isIdentifier(name: string): boolean {
  return identifier.test(name)
}
