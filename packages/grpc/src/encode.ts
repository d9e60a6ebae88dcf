import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { entryFields, isMap } from './decode.ts'
import { scalars } from './scalars.ts'
import type { FieldType, MessageType, Types, ValueType } from './types.ts'
import { isRecord, UnknownType, wellKnown } from './well-known.ts'
import { bytesField, varintField } from './wire.ts'

const deepest = 100

/** Whether a message can be the arguments of a call, which are an object; one that cannot is their `value`. */
export function isObjectLike(type: MessageType): boolean {
  const special = wellKnown.get(type.name)
  return special === undefined || (typeof special.schema === 'object' && special.schema.type === 'object')
}

/** Turns arguments into the bytes of a message; throws INPUT_INVALID that names the place, so that nothing is sent. */
export function encodeArguments(types: Types, type: MessageType, args: JsonObject): Buffer {
  return new Encoder(types).message(type, isObjectLike(type) ? args : (args.value ?? null), '', 0)
}

class Encoder {
  readonly #types: Types

  constructor(types: Types) {
    this.#types = types
  }

  message(type: MessageType, value: Json, path: string, depth: number): Buffer {
    return wellKnown.has(type.name) ? this.#named(type.name, value, path, depth) : this.#plain(type, value, path, depth)
  }

  #named(name: string, value: Json, path: string, depth: number): Buffer {
    if (depth > deepest) throw wrong(path, `is nested deeper than ${deepest} messages`)
    const special = wellKnown.get(name)
    if (special !== undefined) {
      return explained(path, () => special.write(value, (inner, part) => this.#named(inner, part, path, depth + 1)))
    }
    const type = this.#types.messages.get(name)
    if (type === undefined) throw wrong(path, new UnknownType(name).message)
    return this.#plain(type, value, path, depth)
  }

  #plain(type: MessageType, value: Json, path: string, depth: number): Buffer {
    if (depth > deepest) throw wrong(path, `is nested deeper than ${deepest} messages`)
    if (!isRecord(value)) throw wrong(path, 'must be an object')
    const fields = new Map(type.fields.map((field) => [field.name, field]))
    const taken = new Map<string, string>()
    const parts: Buffer[] = []
    for (const [name, member] of Object.entries(value)) {
      const at = `${path}/${escapeSegment(name)}`
      const field = fields.get(name)
      if (field === undefined) throw wrong(at, `is not a field of ${type.name}`)
      if (member === null && !holdsNull(field)) continue
      const rival = field.oneof === undefined ? undefined : taken.get(field.oneof)
      if (rival !== undefined) throw wrong(at, `cannot be given together with ${rival}`)
      if (field.oneof !== undefined) taken.set(field.oneof, name)
      parts.push(...this.#field(field, member, at, depth))
    }
    return Buffer.concat(parts)
  }

  #field(field: FieldType, value: Json, path: string, depth: number): Buffer[] {
    if (isMap(field)) return this.#map(field, value, path, depth)
    if (!field.repeated) return [this.#one(field.number, field.value, value, path, depth)]
    if (!Array.isArray(value)) throw wrong(path, 'must be a list')
    return value.map((item: Json, index) => this.#one(field.number, field.value, item, `${path}/${index}`, depth))
  }

  #map({ number, value: type }: FieldType, value: Json, path: string, depth: number): Buffer[] {
    if (!isRecord(value) || type.kind !== 'message') throw wrong(path, 'must be an object')
    const [keyField, valueField] = entryFields(type.type)
    return Object.entries(value).map(([key, member]) => {
      const at = `${path}/${escapeSegment(key)}`
      const name = this.#one(1, keyField.value, keyOf(keyField.value, key), at, depth)
      return bytesField(number, Buffer.concat([name, this.#one(2, valueField.value, member, at, depth)]))
    })
  }

  #one(number: number, type: ValueType, value: Json, path: string, depth: number): Buffer {
    if (type.kind === 'message') return bytesField(number, this.message(type.type, value, path, depth + 1))
    if (type.kind === 'scalar') return explained(path, () => scalars[type.scalar].write(number, value))
    if (type.type.name === 'google.protobuf.NullValue' && value === null) return varintField(number, 0)
    const chosen = typeof value === 'string' ? type.type.numbers.get(value) : undefined
    if (chosen === undefined) throw wrong(path, `must be a name of ${type.type.name}`)
    return varintField(number, chosen)
  }
}

/** Null means absent, but for the types that have a null of their own. */
function holdsNull({ value, repeated }: FieldType): boolean {
  if (repeated || value.kind === 'scalar') return false
  return value.type.name === 'google.protobuf.Value' || value.type.name === 'google.protobuf.NullValue'
}

/** The keys of JSON are text, those of a map may be numbers or booleans. */
function keyOf(type: ValueType, key: string): Json {
  if (type.kind !== 'scalar' || type.scalar !== 'bool') return key
  return key === 'true' ? true : key === 'false' ? false : key
}

/** Gives a complaint about a value the place where the value stands. */
function explained(path: string, write: () => Buffer): Buffer {
  try {
    return write()
  } catch (error) {
    if (error instanceof TypeError || error instanceof RangeError) throw wrong(path, error.message)
    throw error
  }
}

function wrong(path: string, message: string): ToolError {
  const details = { issues: [{ path, message }] }
  return new ToolError('INPUT_INVALID', `The argument ${path || '/'} ${message}.`, { details, stage: 'execute' })
}
