import type { JsonSchema } from '@gantry/contract'
import { draft202012 } from './dialects.ts'
import { isObject } from './keywords/keyword.ts'
import { join } from './node.ts'
import { type Place, rootUri, type SchemaObject } from './place.ts'
import { type Reference, Registry, type SchemaLimits } from './registry.ts'
import { Spot, shapes } from './verify.ts'

export interface LoadOptions {
  readonly documents?: ReadonlyMap<string, JsonSchema>
  readonly limits?: Partial<SchemaLimits>
}

/** A verified schema with all that it refers to; throws SCHEMA_INVALID naming every place that is wrong. */
export function loadSchema(schema: JsonSchema, options: LoadOptions): { root: Place; registry: Registry } {
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
    const place = queue[index] as Place
    if (++registry.nodes > limits.nodes) throw limit(registry, place, `has more than ${limits.nodes} sub-schemas`)
    if (place.depth > limits.depth) throw limit(registry, place, `is nested deeper than ${limits.depth} levels`)
    if (typeof place.schema === 'boolean') continue
    if (isObject(place.schema)) verifyKeywords(place, place.schema, registry)
    else registry.refuse(place.path, undefined, 'must be a schema: an object or a boolean')
    if (registry.text > limits.text) throw limit(registry, place, `holds more than ${limits.text} characters`)
  }
  queue.length = 0
}

function limit(registry: Registry, place: Place, message: string): Error {
  registry.add(place.path, undefined, message)
  return registry.error()
}

function verifyKeywords(place: Place, schema: SchemaObject, registry: Registry): void {
  const { dialect } = place.resource
  if (dialect.legacy && Object.hasOwn(schema, '$ref')) {
    shapes.reference(schema.$ref, new Spot('$ref', place, registry))
    return
  }
  for (const keyword of Object.keys(schema)) {
    const definition = dialect.keywords.get(keyword)
    if (definition !== undefined) shapes[definition.shape](schema[keyword], new Spot(keyword, place, registry))
  }
}

/** Points every reference at its place; returns those that wait for another document to be verified. */
function resolveReferences(references: readonly Reference[], registry: Registry): readonly Reference[] {
  return references.filter((reference) => {
    const target = registry.resolve(reference)
    if (target === 'wait') return true
    if (reference.keyword === '$ref') reference.place.ref = target
    else reference.place.dynamicRef = target
    if (target !== undefined) registry.resolved.push(reference)
    return false
  })
}

/**
 * Refuses references that come back to themselves without going into the value: checking them would never end.
 * Walks depth first with its own stack; a place is `open` while the walk is below it, and meeting it again is a loop.
 */
function refuseLoops(registry: Registry): void {
  const state = new Map<Place, 'open' | 'done'>()
  for (const { place: start } of registry.resolved) {
    if (state.has(start)) continue
    const stack: Place[] = [start]
    for (let place = stack.at(-1); place !== undefined; place = stack.at(-1)) {
      if (state.has(place)) {
        state.set(place, 'done')
        stack.pop()
        continue
      }
      state.set(place, 'open')
      for (const next of nextInPlace(place)) {
        if (state.get(next) === 'open') {
          registry.refuse(join(start.path, '$ref'), '$ref', 'comes back to itself without going into the value')
          return
        }
        if (!state.has(next)) stack.push(next)
      }
    }
  }
}

/** The places that are applied to the same value; dynamic references are bounded while checking. */
function nextInPlace(place: Place): Place[] {
  const next: Place[] = place.ref === undefined ? [] : [place.ref]
  const { schema, resource } = place
  if (typeof schema === 'boolean' || (resource.dialect.legacy && place.ref !== undefined)) return next
  for (const keyword of Object.keys(schema)) {
    if (resource.dialect.keywords.get(keyword)?.inPlace !== true) continue
    for (const child of schemasIn(keyword, schema[keyword])) {
      const known = typeof child === 'object' ? resource.places.get(child) : undefined
      if (known !== undefined) next.push(known)
    }
  }
  return next
}

const single: ReadonlySet<string> = new Set(['not', 'if', 'then', 'else'])

function schemasIn(keyword: string, value: unknown): readonly JsonSchema[] {
  if (single.has(keyword)) return [value as JsonSchema]
  return (isObject(value) ? Object.values(value) : value) as JsonSchema[]
}
