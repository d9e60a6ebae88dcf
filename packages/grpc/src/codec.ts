import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { type ScalarForm, scalars } from './scalars.ts'
import type { FieldType, MessageType, Types, ValueType } from './types.ts'
import { put, UnknownType, wellKnown } from './well-known.ts'
import { bytesField, fieldsOf, varintField, varintsOf, WireError } from './wire.ts'

const deepest = 100
/** Values in one answer: an empty message of two bytes can represent thousands of zeroes. */
const mostValues = 1_000_000

/**
 * Turns the bytes of a message into its JSON. A field without presence is always there, if only as its zero; one with
 * presence is there when it was sent. Throws WireError with the path of a field whose bytes do not fit, RESULT_TOO_LARGE
 * for too many values.
 */
export function decodeMessage(types: Types, type: MessageType, bytes: Buffer): Json {
  return new Decoder(types).message(type, bytes, 0)
}

class Decoder {
  readonly #types: Types
  #left = mostValues

  constructor(types: Types) {
    this.#types = types
  }

  message(type: MessageType, bytes: Buffer, depth: number): Json {
    return wellKnown.has(type.name) ? this.#named(type.name, bytes, depth) : this.#plain(type, bytes, depth)
  }

  #named(name: string, bytes: Buffer, depth: number): Json {
    this.#spend(depth)
    const special = wellKnown.get(name)
    if (special !== undefined) return special.read(bytes, (inner, part) => this.#named(inner, part, depth + 1))
    const type = this.#types.messages.get(name)
    if (type === undefined) throw new UnknownType(name)
    return this.#plain(type, bytes, depth)
  }

  #plain(type: MessageType, bytes: Buffer, depth: number): Json {
    this.#spend(depth)
    const sent = this.#collect(bytes)
    const chosen = lastOfOneofs(type, sent)
    const target: { [key: string]: Json } = {}
    let at = ''
    try {
      for (const field of type.fields) {
        at = field.name
        const values = chosen.has(field.number) ? sent.get(field.number) : undefined
        const value = values === undefined ? this.#absent(field, depth) : this.#field(field, values, depth)
        if (value !== undefined) put(target, field.name, value)
      }
    } catch (error) {
      throw error instanceof WireError ? error.under(at) : error
    }
    return target
  }

  /** Values by field number, in the order in which each number first came last. */
  #collect(bytes: Buffer): Map<number, (bigint | Buffer)[]> {
    const sent = new Map<number, (bigint | Buffer)[]>()
    for (const { number, value } of fieldsOf(bytes)) {
      this.#spend(0)
      const held = sent.get(number) ?? []
      held.push(value)
      sent.delete(number)
      sent.set(number, held)
    }
    return sent
  }

  #absent(field: FieldType, depth: number): Json | undefined {
    if (field.repeated) return isMap(field) ? {} : []
    if (field.presence) return undefined
    this.#spend(depth)
    if (field.value.kind === 'scalar') return scalars[field.value.scalar].zero
    return field.value.kind === 'enum' ? enumName(field.value, 0n) : undefined
  }

  #field(field: FieldType, values: readonly (bigint | Buffer)[], depth: number): Json {
    if (isMap(field)) return this.#map(field, values, depth)
    if (field.repeated) return this.#list(field, values, depth)
    if (field.value.kind !== 'message') return this.#one(field.value, values.at(-1) ?? 0n, depth)
    // A message in several parts equals the concatenation of its parts.
    return this.#one(field.value, Buffer.concat(values.map(bytesOnly)), depth)
  }

  #list(field: FieldType, values: readonly (bigint | Buffer)[], depth: number): Json[] {
    const form = formOf(field.value)
    const list: Json[] = []
    try {
      for (const value of values) {
        for (const item of unpacked(form, value)) list.push(this.#one(field.value, item, depth))
      }
    } catch (error) {
      throw error instanceof WireError ? error.under(list.length) : error
    }
    return list
  }

  #map({ value }: FieldType, entries: readonly (bigint | Buffer)[], depth: number): Json {
    const target: { [key: string]: Json } = {}
    if (value.kind !== 'message') return target
    const [keyField, valueField] = entryFields(value.type)
    for (const entry of entries) {
      const sent = this.#collect(bytesOnly(entry))
      const key = this.#field(keyField, sent.get(keyField.number) ?? [emptyOf(keyField.value)], depth)
      const values = sent.get(valueField.number) ?? [emptyOf(valueField.value)]
      put(target, String(key), this.#member(String(key), valueField, values, depth + 1))
    }
    return target
  }

  #member(key: string, field: FieldType, values: readonly (bigint | Buffer)[], depth: number): Json {
    try {
      return this.#field(field, values, depth)
    } catch (error) {
      throw error instanceof WireError ? error.under(key) : error
    }
  }

  #one(type: ValueType, value: bigint | Buffer, depth: number): Json {
    if (type.kind === 'message') return this.message(type.type, bytesOnly(value), depth + 1)
    this.#spend(depth)
    return type.kind === 'enum' ? enumName(type, value) : scalars[type.scalar].read(value)
  }

  #spend(depth: number): void {
    this.#left -= 1
    if (this.#left < 0) throw new ToolError('RESULT_TOO_LARGE', `The response contains more than ${mostValues} values.`)
    if (depth > deepest)
      throw new ToolError('RESULT_TOO_LARGE', `The response is nested deeper than ${deepest} messages.`)
  }
}

/** The last member of a oneof takes precedence; the others are dropped. */
function lastOfOneofs(type: MessageType, sent: ReadonlyMap<number, unknown>): ReadonlySet<number> {
  const chosen = new Set(sent.keys())
  const groups = new Map<number, string>()
  for (const { number, oneof } of type.fields) if (oneof !== undefined) groups.set(number, oneof)
  if (groups.size === 0) return chosen
  const taken = new Set<string>()
  for (const number of [...sent.keys()].reverse()) {
    const group = groups.get(number)
    if (group === undefined) continue
    if (taken.has(group)) chosen.delete(number)
    taken.add(group)
  }
  return chosen
}

export function isMap({ repeated, value }: FieldType): boolean {
  return repeated && value.kind === 'message' && value.type.mapEntry
}

/** Key and value of a map's entry. */
export function entryFields({ name, fields }: MessageType): readonly [FieldType, FieldType] {
  const key = fields.find(({ number }) => number === 1)
  const value = fields.find(({ number }) => number === 2)
  const sound =
    key !== undefined && value !== undefined && key.value.kind === 'scalar' && !key.repeated && !value.repeated
  if (!sound) throw new WireError(`The descriptor of the map entry ${name} is wrong.`)
  return [key, value]
}

function formOf(type: ValueType): { readonly packs: 'varint' | 4 | 8 | undefined } {
  if (type.kind === 'scalar') return scalars[type.scalar]
  return { packs: type.kind === 'enum' ? 'varint' : undefined }
}

/** An enum value by name, or its number when it has no name. */
function enumName({ type }: ValueType & { readonly kind: 'enum' }, value: bigint | Buffer): Json {
  if (typeof value !== 'bigint') throw new WireError('An enum is not sent as a number.')
  const number = Number(BigInt.asIntN(32, value))
  if (type.name === 'google.protobuf.NullValue') return null
  return type.names.get(number) ?? number
}

function emptyOf(type: ValueType): bigint | Buffer {
  if (type.kind === 'enum') return 0n
  if (type.kind === 'message') return Buffer.alloc(0)
  const { packs } = scalars[type.scalar]
  if (packs === 'varint') return 0n
  return Buffer.alloc(packs ?? 0)
}

function bytesOnly(value: bigint | Buffer): Buffer {
  if (Buffer.isBuffer(value)) return value
  throw new WireError('A number was sent where a message should be.')
}

/** Whether a message is an object and can be the arguments of a call; otherwise it is the argument `value`. */
export function isObjectLike(type: MessageType): boolean {
  const special = wellKnown.get(type.name)
  return special === undefined || (typeof special.schema === 'object' && special.schema.type === 'object')
}

/** Encodes arguments as a message; throws INPUT_INVALID with the path before anything is sent. */
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
    if (!isObject(value)) throw wrong(path, 'must be an object')
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
    if (!isObject(value) || type.kind !== 'message') throw wrong(path, 'must be an object')
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

/** Null means absent, except for types with their own null. */
function holdsNull({ value, repeated }: FieldType): boolean {
  if (repeated || value.kind === 'scalar') return false
  return value.type.name === 'google.protobuf.Value' || value.type.name === 'google.protobuf.NullValue'
}

/** The keys of JSON are text, those of a map may be numbers or booleans. */
function keyOf(type: ValueType, key: string): Json {
  if (type.kind !== 'scalar' || type.scalar !== 'bool') return key
  return key === 'true' ? true : key === 'false' ? false : key
}

/** Adds the path of a value to its error. */
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

/** The values of a repeated number: one by one, or many in one field. */
function* unpacked(form: Pick<ScalarForm, 'packs'>, value: bigint | Buffer): Generator<bigint | Buffer> {
  const { packs } = form
  if (packs === undefined || typeof value === 'bigint') yield value
  else if (packs === 'varint') yield* varintsOf(value)
  else {
    if (value.length % packs !== 0) throw new WireError('A packed field ends inside a value.')
    for (let at = 0; at < value.length; at += packs) yield value.subarray(at, at + packs)
  }
}
