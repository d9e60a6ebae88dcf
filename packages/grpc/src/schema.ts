import { type JsonSchema, ToolError } from '@gantry/contract'
import { entryFields, isMap } from './decode.ts'
import { isObjectLike } from './encode.ts'
import { scalars } from './scalars.ts'
import type { FieldType, MessageType, ValueType } from './types.ts'
import { wellKnown } from './well-known.ts'

/** What a schema describes: arguments, in which unknown members are mistakes, or an answer, in which zeroes are shown. */
export type Direction = 'input' | 'output'

type Members = { [name: string]: JsonSchema }

/** Fields and enum names in one schema; a descriptor may tie thousands of messages to every method. */
const mostMembers = 5_000
/** Above this size of a oneof its rule, which grows with the square, is left to the encoder. */
const largestOneof = 24

/** The schema of a call's arguments, always an object. Throws TOOL_INVALID when it would be too large. */
export function inputSchemaOf(type: MessageType): JsonSchema {
  if (isObjectLike(type)) return schemaOf(type, 'input')
  const value = wellKnown.get(type.name)?.schema ?? {}
  return { type: 'object', properties: { value }, required: ['value'], additionalProperties: false }
}

/** The schema of one answer, or of the list of answers of a method that streams them. */
export function outputSchemaOf(type: MessageType, streams: boolean): JsonSchema {
  const schema = schemaOf(type, 'output')
  if (!streams) return schema
  const { $defs, ...items } = schema as { readonly [keyword: string]: unknown }
  return { type: 'array', items, ...($defs === undefined ? {} : { $defs }) }
}

/** Messages inside stand in `$defs` under their full name, so that they may refer to each other in circles. */
function schemaOf(type: MessageType, direction: Direction): JsonSchema {
  const special = wellKnown.get(type.name)
  if (special !== undefined) return special.schema
  const writing = new Writing(direction)
  const body = writing.body(type)
  const $defs = writing.definitions()
  return { ...body, ...(Object.keys($defs).length === 0 ? {} : { $defs }) }
}

class Writing {
  readonly #direction: Direction
  readonly #found = new Set<MessageType>()
  #members = 0

  constructor(direction: Direction) {
    this.#direction = direction
  }

  body(type: MessageType): { readonly [keyword: string]: unknown } {
    const properties: Members = {}
    for (const field of type.fields) properties[field.name] = described(this.#field(field), field.comment)
    const required = type.fields.filter((field) => this.#always(field)).map(({ name }) => name)
    const rules = this.#direction === 'input' ? oneofRules(type) : {}
    return {
      type: 'object',
      ...(type.comment === '' ? {} : { description: type.comment }),
      properties,
      ...(required.length === 0 ? {} : { required }),
      ...(this.#direction === 'input' ? { additionalProperties: false } : {}),
      ...(Object.keys(rules).length === 0 ? {} : { dependentSchemas: rules }),
    }
  }

  /** The bodies of all messages that were referred to; writing one may find others. */
  definitions(): Members {
    const $defs: Members = {}
    for (const type of this.#found) $defs[type.name] = this.body(type)
    return $defs
  }

  #field(field: FieldType): JsonSchema {
    this.#count(1)
    if (isMap(field) && field.value.kind === 'message') return this.#map(field.value.type)
    const schema = this.#value(field.value)
    return field.repeated ? { type: 'array', items: schema } : schema
  }

  #map(entry: MessageType): JsonSchema {
    const [key, value] = entryFields(entry)
    const scalar = key.value.kind === 'scalar' ? key.value.scalar : 'string'
    const names =
      scalar === 'string'
        ? {}
        : { propertyNames: scalar === 'bool' ? { enum: ['true', 'false'] } : { pattern: '^-?[0-9]{1,20}$' } }
    return { type: 'object', additionalProperties: this.#value(value.value), ...names }
  }

  #value(type: ValueType): JsonSchema {
    if (type.kind === 'scalar') return scalars[type.scalar].schema
    if (type.kind === 'message') return wellKnown.get(type.type.name)?.schema ?? this.#reference(type.type)
    if (type.type.name === 'google.protobuf.NullValue') return { type: 'null' }
    this.#count(type.type.numbers.size)
    const names = { enum: [...type.type.numbers.keys()] }
    // A newer server may send a number that has no name here.
    return this.#direction === 'input' ? names : { anyOf: [names, { type: 'integer' }] }
  }

  #reference(type: MessageType): JsonSchema {
    this.#found.add(type)
    return { $ref: `#/$defs/${type.name}` }
  }

  /** An answer always shows what has no presence; arguments must hold only what an old file marks as required. */
  #always({ required, presence, repeated }: FieldType): boolean {
    return this.#direction === 'input' ? required : repeated || !presence
  }

  #count(members: number): void {
    this.#members += members
    if (this.#members <= mostMembers) return
    throw new ToolError('TOOL_INVALID', `Its messages have more than ${mostMembers} fields and enum names.`)
  }
}

/** With one member of a oneof, the others are refused. */
function oneofRules(type: MessageType): Members {
  const rules: Members = {}
  for (const group of new Set(type.fields.map(({ oneof }) => oneof))) {
    const names = type.fields.filter(({ oneof }) => oneof === group).map(({ name }) => name)
    if (group === undefined || names.length > largestOneof) continue
    for (const name of names) {
      const others = names.filter((other) => other !== name)
      if (others.length > 0) rules[name] = { properties: Object.fromEntries(others.map((other) => [other, false])) }
    }
  }
  return rules
}

function described(schema: JsonSchema, comment: string): JsonSchema {
  return comment === '' || typeof schema === 'boolean' ? schema : { ...schema, description: comment }
}
