import {
  type EnumType,
  type FieldType,
  type MessageType,
  type MethodType,
  methodKey,
  scalarNames,
  type Types,
  type ValueType,
} from './types.ts'
import { type Parts, type ReadBudget, readParts, varintsOf, WireError } from './wire.ts'

const mostFields = 500_000
const deepestNesting = 32
const longestComment = 4_000
const wordPattern = /^[A-Za-z_]\w*$/
const fullNamePattern = /^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*$/

/** A message whose references to others are not resolved yet: its descriptor and its location. */
interface Draft {
  readonly type: MessageType
  readonly parts: Parts
  readonly file: File
  /** Its path in the source information: `4,0` is the first message of a file. */
  readonly path: string
}

interface File {
  readonly parts: Parts
  readonly scope: string
  readonly implicit: boolean
  readonly comments: ReadonlyMap<string, string>
}

interface Reading {
  readonly budget: ReadBudget
  readonly messages: Map<string, MessageType>
  readonly enums: Map<string, EnumType>
  readonly drafts: Draft[]
}

/**
 * Reads `FileDescriptorProto`s into types. They come from a server or a file that may be hostile: sizes are bounded,
 * every name is checked, and no code is made of them. Throws WireError.
 */
export function readDescriptors(files: readonly Buffer[]): Types {
  const reading: Reading = { budget: { left: mostFields }, messages: new Map(), enums: new Map(), drafts: [] }
  const open = files.map((bytes) => openFile(bytes, reading))
  for (const file of open) declare(file, file.parts, file.scope, { message: 4, enum: 5 }, '', 0, reading)
  for (const draft of reading.drafts) fill(draft, reading)
  const methods = open.flatMap((file) => methodsOf(file, reading))
  return { messages: reading.messages, methods: new Map(methods.map((method) => [methodKey(method), method])) }
}

function openFile(bytes: Buffer, { budget }: Reading): File {
  const parts = readParts(bytes, budget)
  const scope = parts.text(2)
  if (scope !== '' && !fullNamePattern.test(scope)) throw new WireError('A descriptor has an invalid package name.')
  return { parts, scope, implicit: parts.text(12) === 'proto3', comments: commentsOf(parts.all(9).at(-1), budget) }
}

/** The comments before declarations, by the path that the source information gives them. */
function commentsOf(info: Buffer | undefined, budget: ReadBudget): Map<string, string> {
  const comments = new Map<string, string>()
  if (info === undefined) return comments
  for (const bytes of readParts(info, budget).all(1)) {
    const location = readParts(bytes, budget)
    const comment = location.text(3).trim().slice(0, longestComment)
    const path = location.all(1).at(-1)
    if (comment !== '' && path !== undefined && path.length < 200) comments.set([...varintsOf(path)].join(','), comment)
  }
  return comments
}

/** Makes the names of messages and enums known, nested ones included. */
function declare(
  file: File,
  parts: Parts,
  scope: string,
  at: { readonly message: number; readonly enum: number },
  path: string,
  depth: number,
  reading: Reading,
): void {
  if (depth > deepestNesting) throw new WireError('A descriptor nests its messages too deep.')
  for (const bytes of parts.all(at.enum)) declareEnum(bytes, scope, reading)
  for (const [index, bytes] of parts.all(at.message).entries()) {
    const inner = readParts(bytes, reading.budget)
    const name = within(scope, inner.text(1))
    const own = path === '' ? `${at.message},${index}` : `${path},${at.message},${index}`
    if (reading.messages.has(name)) throw new WireError(`The descriptors declare ${name} twice.`)
    const mapEntry = inner.all(7).some((options) => readParts(options, reading.budget).int(7) === 1)
    const type: MessageType = { name, comment: file.comments.get(own) ?? '', fields: [], mapEntry }
    reading.messages.set(name, type)
    reading.drafts.push({ type, parts: inner, file, path: own })
    declare(file, inner, name, { message: 3, enum: 4 }, own, depth + 1, reading)
  }
}

function declareEnum(bytes: Buffer, scope: string, { enums, budget }: Reading): void {
  const parts = readParts(bytes, budget)
  const name = within(scope, parts.text(1))
  if (enums.has(name)) throw new WireError(`The descriptors declare ${name} twice.`)
  const numbers = new Map<string, number>()
  const names = new Map<number, string>()
  for (const value of parts.all(2).map((each) => readParts(each, budget))) {
    const word = checkedWord(value.text(1))
    const number = value.int(2)
    numbers.set(word, number)
    // With an alias two names have one number; the first is the one that is shown.
    if (!names.has(number)) names.set(number, word)
  }
  enums.set(name, { name, numbers, names })
}

function fill({ type, parts, file, path }: Draft, reading: Reading): void {
  const fields = parts.all(2).map((bytes) => readParts(bytes, reading.budget))
  const oneofs = parts.all(8).map((bytes) => readParts(bytes, reading.budget).text(1))
  for (const [index, field] of fields.entries()) {
    const value = valueType(field, type.name, reading)
    // An extension belongs to another message, and a group is a form that only old services use.
    if (value === undefined || field.text(2) !== '') continue
    const comment = file.comments.get(`${path},2,${index}`) ?? ''
    type.fields.push(fieldOf(field, value, file, comment, oneofs[oneofIndex(field)]))
  }
}

function fieldOf(field: Parts, value: ValueType, file: File, comment: string, group: string | undefined): FieldType {
  const name = checkedWord(field.text(1))
  // `optional` in proto3 is written as a group of one field, named after it.
  const optional = field.int(17) === 1 || group === `_${name}`
  const oneof = group === undefined || optional ? undefined : checkedWord(group)
  const label = field.int(4)
  const number = field.int(3)
  if (number < 1) throw new WireError('A descriptor numbers a field below 1.')
  return {
    number,
    name: field.text(10) === '' ? jsonName(name) : checkedJsonName(field.text(10)),
    value,
    repeated: label === 3,
    required: label === 2,
    presence: value.kind === 'message' || optional || oneof !== undefined || !file.implicit,
    oneof,
    comment,
  }
}

/** The group of a field, counted from 0; absent and 0 are written differently only by presence. */
function oneofIndex(field: Parts): number {
  return field.has(9) ? field.int(9) : -1
}

function valueType(field: Parts, scope: string, reading: Reading): ValueType | undefined {
  const number = field.int(5)
  const scalar = scalarNames[number]
  if (scalar !== undefined) return { kind: 'scalar', scalar }
  if (number === 11) return { kind: 'message', type: find(reading.messages, field.text(6), scope) }
  if (number === 14) return { kind: 'enum', type: find(reading.enums, field.text(6), scope) }
  return undefined
}

function methodsOf({ parts, scope, comments }: File, { budget, messages }: Reading): MethodType[] {
  return parts.all(6).flatMap((bytes, place) => {
    const service = readParts(bytes, budget)
    const name = within(scope, service.text(1))
    return service.all(2).map((each, index): MethodType => {
      const method = readParts(each, budget)
      const options = readParts(method.all(4).at(-1) ?? Buffer.alloc(0), budget)
      return {
        service: name,
        name: checkedWord(method.text(1)),
        input: find(messages, method.text(2), scope),
        output: find(messages, method.text(3), scope),
        requestStream: method.int(5) === 1,
        responseStream: method.int(6) === 1,
        comment: comments.get(`6,${place},2,${index}`) ?? '',
        deprecated: options.int(33) === 1,
        says: (['nothing', 'read', 'idempotent'] as const)[options.int(34)] ?? 'nothing',
      }
    })
  })
}

/** Finds a type by its full name (`.a.b.C`) or, as some tools write it, by one relative to where it is used. */
function find<Type>(types: ReadonlyMap<string, Type>, name: string, scope: string): Type {
  if (name.startsWith('.')) return found(types.get(name.slice(1)), name)
  for (let around = scope; around !== ''; around = around.slice(0, Math.max(0, around.lastIndexOf('.')))) {
    const type = types.get(`${around}.${name}`)
    if (type !== undefined) return type
  }
  return found(types.get(name), name)
}

function found<Type>(type: Type | undefined, name: string): Type {
  if (type !== undefined) return type
  throw new WireError(`The descriptors name a type that they do not hold: ${name.slice(0, 100)}`)
}

function within(scope: string, name: string): string {
  return scope === '' ? checkedWord(name) : `${scope}.${checkedWord(name)}`
}

function checkedWord(name: string): string {
  if (name.length <= 256 && wordPattern.test(name)) return name
  throw new WireError('A descriptor contains an invalid protobuf name.')
}

/** A JSON name may be any text; what could reach a prototype or hide from a reader may not. */
function checkedJsonName(name: string): string {
  if (name.length <= 256 && name !== '__proto__' && /^[\x21-\x7e]+$/.test(name)) return name
  throw new WireError('A descriptor contains an invalid JSON name.')
}

/** `user_id` is `userId` in JSON, as protobuf defines it. */
function jsonName(name: string): string {
  return name.replace(/_+([A-Za-z0-9]?)/g, (_all, letter: string) => letter.toUpperCase()) || name
}
