import type { JsonSchema } from '@gantry/contract'
import { unescapeSegment } from '@gantry/json-schema/internal/pointer'

/** The schema that a reference within its own document points to (`#` or `#/…`), or undefined for any other. */
export function resolveLocal(ref: string, root: JsonSchema): unknown {
  if (ref === '#') return root
  if (!ref.startsWith('#/')) return undefined
  let at: unknown = root
  for (const segment of ref.slice(2).split('/')) {
    const key = keyOf(segment)
    if (key === undefined || typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined
    at = (at as { readonly [key: string]: unknown })[key]
  }
  return at
}

function keyOf(segment: string): string | undefined {
  try {
    return unescapeSegment(decodeURIComponent(segment))
  } catch {
    return undefined
  }
}
