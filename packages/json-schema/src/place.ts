import type { JsonSchema } from '@gantry/contract'
import type { Keyword } from './keywords/keyword.ts'
import type { Node } from './node.ts'

/** A schema that is an object, not `true` or `false`. */
export type SchemaObject = Exclude<JsonSchema, boolean>

/** A set of keywords under one `$schema`. */
export interface Dialect {
  readonly keywords: ReadonlyMap<string, Keyword>
  /** Draft-07: `$ref` hides its siblings, and `$id: "#name"` is an anchor. */
  readonly legacy: boolean
  readonly assertFormat: boolean
}

/** One schema where it stands. */
export interface Place {
  readonly schema: JsonSchema
  /** Pointer into the root schema, or `uri#pointer` in another document. */
  readonly path: string
  readonly depth: number
  readonly resource: Resource
  ref: Place | undefined
  dynamicRef: Place | undefined
  node: Node | undefined
}

export function newPlace(schema: JsonSchema, path: string, depth: number, resource: Resource): Place {
  return { schema, path, depth, resource, ref: undefined, dynamicRef: undefined, node: undefined }
}

/** A schema with its own base URI, and the names that are defined in it. */
export class Resource {
  readonly uri: string
  readonly dialect: Dialect
  readonly root: Place
  readonly places: Map<SchemaObject, Place> = new Map()
  /** Made by the first name, because few schemas have any. */
  anchors: Map<string, Place> | undefined
  dynamicAnchors: Map<string, Place> | undefined

  constructor(uri: string, dialect: Dialect, schema: JsonSchema, path: string, depth: number) {
    this.uri = uri
    this.dialect = dialect
    this.root = newPlace(schema, path, depth, this)
  }
}
