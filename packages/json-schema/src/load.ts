import type { JsonSchema } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { draft202012 } from './dialects.ts'
import { isSchema } from './keywords/value.ts'
import { type Location, rootUri, type SchemaObject } from './location.ts'
import { join } from './node.ts'
import { type Reference, Registry, type SchemaLimits } from './registry.ts'
import { Spot, shapes } from './verify.ts'

export interface LoadOptions {
  readonly documents?: ReadonlyMap<string, JsonSchema>
  readonly limits?: Partial<SchemaLimits>
}

/** A verified schema with all that it refers to; throws SCHEMA_INVALID naming every location that is wrong. */
export function loadSchema(schema: JsonSchema, options: LoadOptions): { root: Location; registry: Registry } {
  const registry = new Registry(options.documents, options.limits)
  const root = registry.addDocument(schema, rootUri, '', draft202012)
  let waiting: readonly Reference[] = []
  do {
    verifyQueue(registry)
    waiting = resolveReferences([...waiting, ...registry.references.splice(0)], registry)
  } while (registry.queue.length > 0 || waiting.length > 0)
  if (registry.issues.length === 0 && registry.resolved.length > 0) refuseLoops(registry)
  if (registry.issues.length > 0) throw registry.error()
  return { root, registry }
}

/** Verifies queued schemas until there are none; a list and not recursion, so that depth cannot exhaust the stack. */
function verifyQueue(registry: Registry): void {
  const { queue, limits } = registry
  for (let index = 0; index < queue.length; index++) {
    const location = queue[index]
    if (location === undefined) continue
    if (++registry.nodes > limits.nodes) throw limit(registry, location, `has more than ${limits.nodes} sub-schemas`)
    if (location.depth > limits.depth) throw limit(registry, location, `is nested deeper than ${limits.depth} levels`)
    if (typeof location.schema === 'boolean') continue
    if (isObject(location.schema)) verifyKeywords(location, location.schema, registry)
    else registry.refuse(location.path, undefined, 'must be a schema: an object or a boolean')
    if (registry.text > limits.text) throw limit(registry, location, `holds more than ${limits.text} characters`)
  }
  queue.length = 0
}

function limit(registry: Registry, location: Location, message: string): Error {
  registry.add(location.path, undefined, message)
  return registry.error()
}

function verifyKeywords(location: Location, schema: SchemaObject, registry: Registry): void {
  const { dialect } = location.resource
  if (dialect.legacy && Object.hasOwn(schema, '$ref')) {
    shapes.reference(schema.$ref, new Spot('$ref', location, registry))
    return
  }
  for (const keyword of Object.keys(schema)) {
    const definition = dialect.keywords.get(keyword)
    if (definition !== undefined) shapes[definition.shape](schema[keyword], new Spot(keyword, location, registry))
  }
}

/** Points every reference at its location; returns those that wait for another document to be verified. */
function resolveReferences(references: readonly Reference[], registry: Registry): readonly Reference[] {
  return references.filter((reference) => {
    const target = registry.resolve(reference)
    if (target === 'wait') return true
    if (reference.keyword === '$ref') reference.location.ref = target
    else reference.location.dynamicRef = target
    if (target !== undefined) registry.resolved.push(reference)
    return false
  })
}

/**
 * Refuses references that come back to themselves without going into the value: checking them would never end.
 * Walks depth first with its own stack; a location is `open` while the walk is below it, and meeting it again is a loop.
 */
function refuseLoops(registry: Registry): void {
  const state = new Map<Location, 'open' | 'done'>()
  for (const { location: start } of registry.resolved) {
    if (state.has(start)) continue
    const stack: Location[] = [start]
    for (let location = stack.at(-1); location !== undefined; location = stack.at(-1)) {
      if (state.has(location)) {
        state.set(location, 'done')
        stack.pop()
        continue
      }
      state.set(location, 'open')
      for (const next of nextApplied(location)) {
        if (state.get(next) === 'open') {
          registry.refuse(join(start.path, '$ref'), '$ref', 'comes back to itself without going into the value')
          return
        }
        if (!state.has(next)) stack.push(next)
      }
    }
  }
}

/** The locations that are applied to the same value; dynamic references are bounded while checking. */
function nextApplied(location: Location): Location[] {
  const next: Location[] = location.ref === undefined ? [] : [location.ref]
  const { schema, resource } = location
  if (typeof schema === 'boolean' || (resource.dialect.legacy && location.ref !== undefined)) return next
  for (const keyword of Object.keys(schema)) {
    if (resource.dialect.keywords.get(keyword)?.inPlace !== true) continue
    for (const child of schemasIn(keyword, schema[keyword])) {
      const known = typeof child === 'object' ? resource.locations.get(child) : undefined
      if (known !== undefined) next.push(known)
    }
  }
  return next
}

const single: ReadonlySet<string> = new Set(['not', 'if', 'then', 'else'])

function schemasIn(keyword: string, value: unknown): readonly JsonSchema[] {
  if (single.has(keyword)) return [value].filter(isSchema)
  const schemas: unknown = isObject(value) ? Object.values(value) : value
  return Array.isArray(schemas) ? schemas.filter(isSchema) : []
}
