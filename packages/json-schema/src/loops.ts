import type { JsonSchema } from '@gantry/contract'
import { isObject } from './keywords/keyword.ts'
import { join } from './node.ts'
import type { Place } from './place.ts'
import type { Registry } from './registry.ts'

/**
 * Refuses references that come back to themselves without going into the value: checking them would never end.
 * Walks depth first with its own stack; a place is `open` while the walk is below it, and meeting it again is a loop.
 */
export function refuseLoops(registry: Registry): void {
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
