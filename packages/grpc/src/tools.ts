import { type JsonSchema, type Tool, ToolError } from '@gantry/contract'
import { toolNameFault } from '@gantry/core/internal/ids/tool-id'
import { entryFields, isMap, isObjectLike } from './codec.ts'
import type { GrpcOptions } from './options.ts'
import { scalars } from './scalars.ts'
import { type FieldType, type MessageType, type MethodType, methodKey, type Types, type ValueType } from './types.ts'
import { wellKnown } from './well-known.ts'
import { WireError } from './wire.ts'

const mostTools = 1_000
const longestDescription = 4_000

/** Tools of a server's methods, and a sentence for each method that is none. */
interface MethodTools {
  readonly tools: readonly Tool[]
  readonly left: readonly string[]
}

/** One tool for each method that takes one message, but for the services that gRPC keeps for itself. */
export function toolsOf(types: Types, options: GrpcOptions): MethodTools {
  const left = unknownServices(types, options)
  const methods = [...types.methods.values()].filter((method) => isChosen(method, options))
  const served = methods.filter((method) => !method.requestStream)
  for (const method of methods) {
    if (method.requestStream) left.push(`${methodKey(method)} is client-streaming and is not a tool.`)
  }
  if (served.length > mostTools) left.push(`Only the first ${mostTools} of ${served.length} methods are tools.`)
  const names = namesOf(served)
  const tools: Tool[] = []
  for (const method of served.slice(0, mostTools)) {
    const tool = toolOf(method, names.get(method) ?? '', options)
    if (typeof tool === 'string') left.push(`${methodKey(method)} is not a tool: ${tool}`)
    else tools.push(tool)
  }
  return { tools, left }
}

/** `Service.Method`; where that is taken twice, with the package before it. */
function namesOf(methods: readonly MethodType[]): ReadonlyMap<MethodType, string> {
  const short = ({ service, name }: MethodType): string => `${service.slice(service.lastIndexOf('.') + 1)}.${name}`
  const uses = new Map<string, number>()
  for (const method of methods) uses.set(short(method), (uses.get(short(method)) ?? 0) + 1)
  return new Map(
    methods.map((method) => {
      const name = short(method)
      return [method, uses.get(name) === 1 ? name : `${method.service}.${method.name}`]
    }),
  )
}

/** A tool, or why the method cannot be one. */
function toolOf(method: MethodType, name: string, options: GrpcOptions): Tool | string {
  const fault = toolNameFault(name)
  if (fault !== undefined) return `its name ${fault}.`
  try {
    return {
      namespace: options.name,
      name,
      version: '1.0.0',
      description: descriptionOf(method),
      inputSchema: inputSchemaOf(method.input),
      outputSchema: outputSchemaOf(method.output, method.responseStream),
      ...(method.says === 'nothing' ? {} : { annotations: hintsOf(method.says) }),
      ...(method.deprecated ? { deprecated: { message: 'The service marks this method as deprecated.' } } : {}),
      effect: options.effects?.[methodKey(method)] ?? 'once',
      backends: [{ kind: 'grpc', name: options.name, method: methodKey(method) }],
    }
  } catch (error) {
    if (ToolError.is(error) || error instanceof WireError) return error.message
    throw error
  }
}

function descriptionOf(method: MethodType): string {
  const { comment, output, responseStream } = method
  if (comment !== '') return comment.slice(0, longestDescription)
  const answer = responseStream ? `a stream of ${output.name}` : output.name
  return `Calls the gRPC method ${methodKey(method)}, which answers with ${answer}.`
}

/** The annotations of a service are shown; only the host decides which calls may be repeated. */
function hintsOf(says: 'read' | 'idempotent'): NonNullable<Tool['annotations']> {
  return says === 'read' ? { readOnlyHint: true, idempotentHint: true } : { idempotentHint: true }
}

/** gRPC's own services are tools only when they are asked for by name. */
function isChosen(method: MethodType, { services }: GrpcOptions): boolean {
  if (services !== undefined) return services.includes(method.service) || services.includes(methodKey(method))
  return !/^grpc\.(?:reflection|health|channelz)\./.test(method.service)
}

function unknownServices({ methods }: Types, { services = [] }: GrpcOptions): string[] {
  const known = new Set([...methods.values()].flatMap((method) => [method.service, methodKey(method)]))
  return services.filter((name) => !known.has(name)).map((name) => `services names ${name}, which does not exist.`)
}

/** The use of a schema: arguments, in which unknown members are mistakes, or an answer, in which zeroes are shown. */
type Direction = 'input' | 'output'

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
  if (typeof schema === 'boolean') return { type: 'array', items: schema }
  const { $defs, ...items } = schema
  return { type: 'array', items, ...($defs === undefined ? {} : { $defs }) }
}

/** Inner messages are in `$defs` under their full name, so that they may refer to each other in circles. */
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
