import { ToolError } from '@gantry/contract'
import { follow, unlessAborted } from '../resilience/abort.ts'
import type { CatalogEntry } from './catalog.ts'

const batchSize = 64
const maxQueries = 256
const maxText = 2_000

/**
 * Unit vectors of tools by digest and of recent queries by text, all of one embedder.
 * A tool is embedded by the first search that needs it; its vector is kept when a later batch fails.
 */
export class Vectors {
  readonly embedder: Embedder
  readonly #tools = new Map<string, Float32Array>()
  readonly #queries = new Map<string, Float32Array>()
  readonly #embedMs: number
  #dimensions = 0

  /** `embedMs` bounds each call of the embedder. */
  constructor(embedder: Embedder, embedMs: number) {
    this.embedder = embedder
    this.#embedMs = embedMs
  }

  tool(digest: string): Float32Array | undefined {
    return this.#tools.get(digest)
  }

  forget(digest: string): void {
    this.#tools.delete(digest)
  }

  /** The vector of a query; a few hundred recent ones are cached, so that all pages of a search cost one call. */
  async query(text: string, signal: AbortSignal): Promise<Float32Array> {
    const asked = text.slice(0, maxText)
    const known = this.#queries.get(asked)
    this.#queries.delete(asked)
    const vector = known ?? (await this.#embed([asked], signal))[0]
    if (vector === undefined) throw new TypeError('the embedder returned no vector')
    this.#queries.set(asked, vector)
    for (const oldest of this.#queries.keys()) {
      if (this.#queries.size <= maxQueries) break
      this.#queries.delete(oldest)
    }
    return vector
  }

  /** Embeds the entries that have no vector yet, a batch at a time. */
  async complete(entries: Iterable<CatalogEntry>, signal: AbortSignal): Promise<void> {
    let batch: CatalogEntry[] = []
    for (const entry of [...entries]) {
      if (this.#tools.has(entry.digest)) continue
      batch.push(entry)
      if (batch.length < batchSize) continue
      await this.#add(batch, signal)
      batch = []
    }
    if (batch.length > 0) await this.#add(batch, signal)
  }

  async #add(batch: readonly CatalogEntry[], signal: AbortSignal): Promise<void> {
    const vectors = await this.#embed(batch.map(textOf), signal)
    batch.forEach((entry, index) => {
      const vector = vectors[index]
      if (vector !== undefined) this.#tools.set(entry.digest, vector)
    })
  }

  async #embed(texts: readonly string[], signal: AbortSignal): Promise<readonly Float32Array[]> {
    const vectors = await embedWithin(this.embedder, texts, this.#embedMs, signal)
    signal.throwIfAborted()
    if (vectors.length !== texts.length)
      throw new TypeError('the embedder returned another number of vectors than texts')
    return vectors.map((vector) => this.#unit(vector))
  }

  /** A normalized copy; throws for a vector that cannot be compared. */
  #unit(vector: Float32Array): Float32Array {
    if (!(vector instanceof Float32Array) || vector.length === 0)
      throw new TypeError('the embedder did not return a Float32Array')
    if (this.#dimensions === 0) this.#dimensions = vector.length
    if (vector.length !== this.#dimensions) throw new TypeError('the embedder returned vectors of different lengths')
    const norm = Math.sqrt(dot(vector, vector))
    if (!Number.isFinite(norm)) throw new TypeError('the embedder returned a vector that is not finite')
    return norm === 0 ? vector.slice() : vector.map((value) => value / norm)
  }
}

/** The cosine of two unit vectors. */
export function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0
  for (let index = 0; index < a.length; index += 1) sum += (a[index] ?? 0) * (b[index] ?? 0)
  return sum
}

/** The text that is embedded for a tool. */
function textOf({ tool }: CatalogEntry): string {
  const words = `${tool.namespace} ${tool.name}`.replace(/[_.-]+/g, ' ')
  return `${words}\n${tool.title ?? ''}\n${(tool.tags ?? []).join(' ')}\n${tool.description}`.slice(0, maxText)
}

/**
 * Turns texts into vectors, so that a search finds tools by meaning.
 * - Concurrency: several `embed` calls may run at once.
 * - Cancellation: should reject soon after `signal` aborts; the search does not wait for it.
 * - Timeout: `embedMs` per call, 10 s by default; then `signal` aborts and the call counts as failed.
 * - Errors: any rejection; the search then falls back to words and returns a warning.
 * - Result: one vector per text, in order, all of one length; equal texts give equal vectors as long as `id` stays.
 * - Ownership: the catalog owns the texts and the returned vectors.
 */
export interface Embedder {
  /** Name and version of the model: vectors of different ids are never compared. */
  readonly id: string
  embed(texts: readonly string[], signal: AbortSignal): Promise<readonly Float32Array[]>
}

/**
 * Calls the embedder, and stops waiting at the timeout or when the signal aborts, even when the embedder ignores its
 * signal. Rejects with the reason of the signal, with TIMEOUT, or with the error of the embedder. The signal of the
 * embedder aborts in both cases, and a later result is dropped.
 */
export async function embedWithin(
  embedder: Embedder,
  texts: readonly string[],
  ms: number,
  signal: AbortSignal,
): Promise<readonly Float32Array[]> {
  signal.throwIfAborted()
  const { signal: own, abort, leave } = follow(signal)
  const timer = setTimeout(() => abort(new ToolError('TIMEOUT', `The embedder took longer than ${ms} ms.`)), ms)
  try {
    return await unlessAborted(() => embedder.embed(texts, own), own)
  } finally {
    clearTimeout(timer)
    leave()
  }
}
