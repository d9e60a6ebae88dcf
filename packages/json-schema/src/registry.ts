import { type Issue, type JsonSchema, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { dialectOf } from './dialects.ts'
import { type Dialect, type Location, newLocation, Resource, resolveUri, splitUri } from './location.ts'
import { draft07Metaschemas, draft202012Metaschemas } from './metaschemas.ts'
import { abridgeMessage, abridgePath, join } from './node.ts'
import { Pattern } from './patterns/pattern.ts'
import { unescapeSegment } from './pointer.ts'

/** Bounds on what a schema may cost to compile and a value to check; schemas and values are both hostile. */
export interface SchemaLimits {
  /** Sub-schemas, over every document that is referred to. */
  readonly nodes: number
  /** Nesting of a schema. */
  readonly depth: number
  /** Members of one `enum`, and values inside one `const` or `enum`. */
  readonly values: number
  /** Characters of property names, patterns and enumerated strings together. */
  readonly text: number
  /** Sub-schema applications in one check; long strings and large arrays cost more than one. */
  readonly steps: number
  /** Schema levels that references may nest in one check, so that a deep value cannot exhaust the stack. */
  readonly recursion: number
  /** Issues reported before the report stops. */
  readonly issues: number
}

export const defaultLimits: SchemaLimits = {
  nodes: 20_000,
  depth: 256,
  values: 20_000,
  text: 2_000_000,
  steps: 2_000_000,
  recursion: 1_000,
  issues: 100,
}

export interface Reference {
  readonly location: Location
  readonly keyword: '$ref' | '$dynamicRef'
  readonly value: string
}

const noDocuments: ReadonlyMap<string, JsonSchema> = new Map()

/** The state while one schema is loaded: documents, names, references, and everything wrong so far. */
export class Registry {
  readonly limits: SchemaLimits
  readonly resources: Map<string, Resource> = new Map()
  readonly issues: Issue[] = []
  readonly references: Reference[] = []
  readonly resolved: Reference[] = []
  /** Schemas that wait to be verified. */
  readonly queue: Location[] = []
  /** True when a `$dynamicRef` was seen. */
  dynamic = false
  nodes = 0
  text = 0
  readonly #documents: ReadonlyMap<string, JsonSchema>
  #patterns: Map<string, Pattern> | undefined

  constructor(documents: ReadonlyMap<string, JsonSchema> = noDocuments, limits?: Partial<SchemaLimits>) {
    this.#documents = documents
    this.limits = limits === undefined ? defaultLimits : { ...defaultLimits, ...limits }
  }

  refuse(path: string, keyword: string | undefined, message: string): void {
    if (this.issues.length >= this.limits.issues) throw this.error()
    this.add(path, keyword, message)
  }

  /** Notes an issue, with path and message cut in the middle when long. */
  add(at: string, keyword: string | undefined, words: string): void {
    const path = abridgePath(at)
    const message = abridgeMessage(words)
    this.issues.push(keyword === undefined ? { path, message } : { path, keyword, message })
  }

  error(): ToolError {
    const [first] = this.issues
    const more = this.issues.length > 1 ? ` (and ${this.issues.length - 1} more)` : ''
    const where = first?.path === '' ? 'at its root' : `at ${first?.path}`
    return new ToolError('SCHEMA_INVALID', `The schema is wrong ${where}: it ${first?.message}${more}.`, {
      details: { issues: this.issues },
    })
  }

  /** The compiled pattern of a source; throws a sentence when the pattern cannot be used. */
  patternOf(source: string): Pattern {
    this.#patterns ??= new Map()
    const known = this.#patterns.get(source)
    if (known !== undefined) return known
    const pattern = new Pattern(source)
    this.#patterns.set(source, pattern)
    return pattern
  }

  /** Takes up a document and queues its root; its own `$id` names it too. */
  addDocument(schema: JsonSchema, uri: string, path: string, inherited: Dialect): Location {
    const dialect = this.#dialectFor(schema, path, inherited)
    const id = idOf(schema, dialect)
    const own = id === undefined ? undefined : resolveUri(id, uri)
    const resource = new Resource(own === undefined ? uri : splitUri(own)[0], dialect, schema, path, 0)
    this.resources.set(uri, resource)
    this.resources.set(resource.uri, resource)
    this.#enqueue(resource.root, resource)
    return resource.root
  }

  /** Queues a sub-schema; one with an `$id` starts a resource of its own. */
  addChild(schema: JsonSchema, path: string, depth: number, parent: Resource): Location {
    const id = idOf(schema, parent.dialect)
    const uri = id === undefined ? undefined : resolveUri(id, parent.uri)
    const location =
      uri === undefined ? newLocation(schema, path, depth, parent) : this.#addResource(schema, path, depth, parent, uri)
    this.#enqueue(location, parent)
    return location
  }

  #addResource(schema: JsonSchema, path: string, depth: number, parent: Resource, id: string): Location {
    const [uri] = splitUri(id)
    const resource = new Resource(uri, this.#dialectFor(schema, path, parent.dialect), schema, path, depth)
    const other = this.resources.get(uri)
    if (other === undefined) this.resources.set(uri, resource)
    else if (other.root.schema !== schema)
      this.refuse(join(path, '$id'), '$id', `is the $id of another schema too: ${uri}`)
    return resource.root
  }

  #enqueue(location: Location, parent: Resource): void {
    if (isObject(location.schema) && !parent.locations.has(location.schema)) {
      parent.locations.set(location.schema, location)
      location.resource.locations.set(location.schema, location)
    }
    this.queue.push(location)
  }

  #dialectFor(schema: JsonSchema, path: string, inherited: Dialect): Dialect {
    if (!isObject(schema) || !Object.hasOwn(schema, '$schema')) return inherited
    const uri = schema.$schema
    const dialect = typeof uri === 'string' ? dialectOf(uri, (known) => this.#find(known)) : 'must be a string'
    if (typeof dialect !== 'string') return dialect
    this.refuse(join(path, '$schema'), '$schema', dialect)
    return inherited
  }

  /** A document that was given, or a metaschema; nothing is ever fetched. */
  #find(uri: string): JsonSchema | undefined {
    const given = this.#documents.get(uri) ?? this.#documents.get(`${uri}#`)
    if (given !== undefined) return given
    for (const known of [...draft202012Metaschemas, ...draft07Metaschemas]) {
      if (isObject(known) && splitUri(String(known.$id))[0] === uri) return known
    }
    return undefined
  }

  #resourceAt(uri: string, dialect: Dialect): Resource | undefined {
    const known = this.resources.get(uri)
    if (known !== undefined) return known
    const schema = this.#find(uri)
    return schema === undefined ? undefined : this.addDocument(schema, uri, `${uri}#`, dialect).resource
  }

  /** The target of a reference; undefined, with an issue, when there is none. `wait` requests to verify a document first. */
  resolve({ location, keyword, value }: Reference): Location | 'wait' | undefined {
    const at = join(location.path, keyword)
    const target = resolveUri(value, location.resource.uri)
    if (target === undefined) return this.#noTarget(at, keyword, `is not a URI reference: ${value}`)
    const [uri, fragment] = splitUri(target)
    const waiting = this.queue.length
    const resource = this.#resourceAt(uri, location.resource.dialect)
    if (resource === undefined) {
      return this.#noTarget(at, keyword, `refers outside the document, and nothing is fetched: ${value}`)
    }
    if (this.queue.length > waiting) return 'wait'
    if (fragment === '') return this.resources.get(uri)?.root
    const found = fragment.startsWith('/') ? this.#follow(resource.root, fragment) : resource.anchors?.get(fragment)
    return found ?? this.#noTarget(at, keyword, `refers to a location that does not exist: ${value}`)
  }

  #noTarget(path: string, keyword: string, message: string): undefined {
    this.refuse(path, keyword, message)
    return undefined
  }

  /** Follows a pointer; an unknown target is queued, so that it is verified like any other sub-schema. */
  #follow(root: Location, pointer: string): Location | undefined {
    let current = root
    let value: unknown = root.schema
    let path = root.path
    for (const segment of pointer.slice(1).split('/')) {
      const key = unescapeSegment(segment)
      if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
      value = Reflect.get(value, key)
      path = join(path, key)
      const known = isObject(value) ? current.resource.locations.get(value) : undefined
      if (known !== undefined) current = known
    }
    if (current.schema === value) return current
    if (typeof value !== 'boolean' && !isObject(value)) return undefined
    return this.addChild(value, path, current.depth + 1, current.resource)
  }
}

/** The `$id` that gives a schema its own base; draft-07 ignores one next to `$ref` and reads `#name` as an anchor. */
function idOf(schema: JsonSchema, dialect: Dialect): string | undefined {
  if (!isObject(schema) || typeof schema.$id !== 'string') return undefined
  if (dialect.legacy && (Object.hasOwn(schema, '$ref') || schema.$id.startsWith('#'))) return undefined
  return schema.$id
}
