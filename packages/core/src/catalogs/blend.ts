import { type Candidates, keyPrefix } from '../search/index.ts'
import type { CatalogEntry } from './catalog.ts'
import { dot, type Vectors } from './vectors.ts'

/** Half by words, half by meaning; a resemblance below the floor is noise. */
const share = 0.5
const floor = 0.2
const unit = 1_000_000

/**
 * Scores by words and by meaning in one order: `share * words / top + (1 - share) * cosine`, as a whole number.
 * Ranks would be the usual way to blend, but they move when tools come and go between pages; this does not,
 * because `top` travels in the cursor.
 */
export function blend(
  entries: readonly CatalogEntry[],
  words: ReadonlyMap<string, number>,
  top: number,
  query: Float32Array,
  vectors: Vectors,
): Candidates {
  const scores = new Int32Array(entries.length)
  const prefixes = new Float64Array(entries.length)
  const numbers = Uint32Array.from(entries, (_, index) => index)
  entries.forEach(({ key, digest, tool }, index) => {
    const vector = vectors.tool(digest)
    const cosine = vector === undefined ? 0 : dot(vector, query)
    const meaning = cosine < floor ? 0 : cosine * (tool.deprecated === undefined ? 1 : 0.5)
    scores[index] = Math.round(unit * (share * Math.min((words.get(key) ?? 0) / top, 100) + (1 - share) * meaning))
    prefixes[index] = keyPrefix(key)
  })
  return { numbers, count: entries.length, scores, keys: entries.map(({ key }) => key), prefixes }
}
