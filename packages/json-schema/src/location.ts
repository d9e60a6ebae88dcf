import type { JsonSchema } from '@gantry/contract'
import type { Keyword } from './keywords/keyword.ts'
import type { Node } from './node.ts'

/** The base of a schema that has no `$id`; relative references in it resolve to themselves. */
export const rootUri = 'gantry:///schema'

/** A reference made absolute, or undefined when it is no URI reference. */
export function resolveUri(reference: string, base: string): string | undefined {
  if (reference.startsWith('#')) return base + reference
  return URL.parse(reference, base)?.href
}

/** A URI and its decoded fragment. */
export function splitUri(uri: string): readonly [uri: string, fragment: string] {
  const hash = uri.indexOf('#')
  if (hash < 0) return [uri, '']
  try {
    return [uri.slice(0, hash), decodeURIComponent(uri.slice(hash + 1))]
  } catch {
    return [uri.slice(0, hash), uri.slice(hash + 1)]
  }
}

/** A schema that is an object, not `true` or `false`. */
export type SchemaObject = Exclude<JsonSchema, boolean>

/** A set of keywords under one `$schema`. */
export interface Dialect {
  readonly keywords: ReadonlyMap<string, Keyword>
  /** Draft-07: `$ref` hides its siblings, and `$id: "#name"` is an anchor. */
  readonly legacy: boolean
  readonly assertFormat: boolean
}

/** One schema and its location. */
export interface Location {
  readonly schema: JsonSchema
  /** Pointer into the root schema, or `uri#pointer` in another document. */
  readonly path: string
  readonly depth: number
  readonly resource: Resource
  ref: Location | undefined
  dynamicRef: Location | undefined
  node: Node | undefined
}

export function newLocation(schema: JsonSchema, path: string, depth: number, resource: Resource): Location {
  return { schema, path, depth, resource, ref: undefined, dynamicRef: undefined, node: undefined }
}

/** A schema with its own base URI, and the names that are defined in it. */
export class Resource {
  readonly uri: string
  readonly dialect: Dialect
  readonly root: Location
  readonly locations: Map<SchemaObject, Location> = new Map()
  /** Made by the first name, because few schemas have any. */
  anchors: Map<string, Location> | undefined
  dynamicAnchors: Map<string, Location> | undefined

  constructor(uri: string, dialect: Dialect, schema: JsonSchema, path: string, depth: number) {
    this.uri = uri
    this.dialect = dialect
    this.root = newLocation(schema, path, depth, this)
  }
}
