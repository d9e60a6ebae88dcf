import type { Warning } from '@gantry/contract'
import { dot, type Embedder, embedWithin } from '@gantry/core/internal/catalogs/embeddings'

const batchSize = 64
const embedMs = 10_000

/** Vectors of texts, in their order; undefined when the embedder failed. Rejects only when the signal has aborted. */
export async function vectorsOf(
  embedder: Embedder,
  texts: readonly string[],
  signal: AbortSignal,
): Promise<readonly Float32Array[] | undefined> {
  const vectors: Float32Array[] = []
  try {
    for (let at = 0; at < texts.length; at += batchSize) {
      const batch = texts.slice(at, at + batchSize)
      const made = await embedWithin(embedder, batch, embedMs, signal)
      if (made.length !== batch.length) return undefined
      for (const vector of made) vectors.push(unitOf(vector))
    }
    return vectors
  } catch {
    signal.throwIfAborted()
    return undefined
  }
}

/** How near two vectors are; undefined for those that cannot be compared. */
export function nearness(a: Float32Array | undefined, b: Float32Array): number | undefined {
  return a === undefined || a.length !== b.length ? undefined : dot(a, b)
}

/** A copy of length one. */
function unitOf(vector: Float32Array): Float32Array {
  if (!(vector instanceof Float32Array) || vector.length === 0) throw new TypeError('the embedder gave no Float32Array')
  const norm = Math.sqrt(dot(vector, vector))
  if (!Number.isFinite(norm)) throw new TypeError('the embedder gave a vector that is not finite')
  return norm === 0 ? vector.slice() : vector.map((value) => value / norm)
}

export const addedByWords: Warning = Object.freeze({
  code: 'BACKEND_UNAVAILABLE',
  message: 'The embedder failed; what was added is found by its words alone.',
})

export const foundByWords: Warning = Object.freeze({
  code: 'BACKEND_UNAVAILABLE',
  message: 'The embedder failed; texts were found by their words alone.',
})
