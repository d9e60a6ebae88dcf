import type { Issue, Json } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'

/** What is nested deeper is refused for that wherever it goes. */
const deepest = 200
const half = 'holds half of a character pair'

/**
 * The first text or key of a JSON text that holds half of a character pair, which no UTF-8 can, so that whoever keeps it
 * changes it. `value` is the text parsed; most texts need no look at it.
 */
export function loneSurrogateIn(text: string, value: Json): Issue | undefined {
  return text.isWellFormed() && !/\\ud/i.test(text) ? undefined : find(value, 0)
}

function find(value: Json, depth: number): Issue | undefined {
  if (typeof value === 'string') return value.isWellFormed() ? undefined : { path: '', message: half }
  if (typeof value !== 'object' || value === null || depth >= deepest) return undefined
  for (const [key, member] of Object.entries(value)) {
    if (!key.isWellFormed()) return { path: '', message: `has a key that ${half}` }
    const found = find(member, depth + 1)
    if (found !== undefined) return { ...found, path: `/${escapeSegment(key)}${found.path}` }
  }
  return undefined
}
