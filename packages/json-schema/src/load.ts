import type { JsonSchema } from '@gantry/contract'
import { draft202012 } from './dialects.ts'
import { isObject } from './keywords/keyword.ts'
import type { SchemaLimits } from './limits.ts'
import { refuseLoops } from './loops.ts'
import type { Place, SchemaObject } from './place.ts'
import { type Reference, Registry } from './registry.ts'
import { shapes } from './shapes.ts'
import { Spot } from './spot.ts'
import { rootUri } from './uri.ts'

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
