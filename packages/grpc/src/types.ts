/** The types of protobuf that hold one plain value, by their number in a descriptor. */
export const scalarNames = [
  undefined,
  'double',
  'float',
  'int64',
  'uint64',
  'int32',
  'fixed64',
  'fixed32',
  'bool',
  'string',
  undefined,
  undefined,
  'bytes',
  'uint32',
  undefined,
  'sfixed32',
  'sfixed64',
  'sint32',
  'sint64',
] as const

export type Scalar = Exclude<(typeof scalarNames)[number], undefined>

/** The type of one value of a field. */
export type ValueType =
  | { readonly kind: 'scalar'; readonly scalar: Scalar }
  | { readonly kind: 'enum'; readonly type: EnumType }
  | { readonly kind: 'message'; readonly type: MessageType }

export interface FieldType {
  readonly number: number
  /** Its name in JSON. */
  readonly name: string
  readonly value: ValueType
  readonly repeated: boolean
  readonly required: boolean
  /** Whether an absent value differs from a zero one. */
  readonly presence: boolean
  /** The group of fields of which at most one may be set. */
  readonly oneof: string | undefined
  readonly comment: string
}

/** A message; its fields are filled in after all names are known, because messages refer to each other in circles. */
export interface MessageType {
  readonly name: string
  readonly comment: string
  readonly fields: FieldType[]
  /** Set for the entry of a map, whose fields are the key and the value. */
  readonly mapEntry: boolean
}

export interface EnumType {
  readonly name: string
  /** Numbers by name, in the order in which they are declared. */
  readonly numbers: ReadonlyMap<string, number>
  readonly names: ReadonlyMap<number, string>
}

export interface MethodType {
  /** With its package. */
  readonly service: string
  readonly name: string
  readonly input: MessageType
  readonly output: MessageType
  readonly requestStream: boolean
  readonly responseStream: boolean
  readonly comment: string
  readonly deprecated: boolean
  /** The service's own idempotency level; displayed, never trusted. */
  readonly says: 'nothing' | 'read' | 'idempotent'
}

/** The declarations of a set of descriptors. */
export interface Types {
  readonly messages: ReadonlyMap<string, MessageType>
  /** By `package.Service/Method`. */
  readonly methods: ReadonlyMap<string, MethodType>
}

/** The name of a method as bindings and options write it. */
export function methodKey({ service, name }: Pick<MethodType, 'service' | 'name'>): string {
  return `${service}/${name}`
}
