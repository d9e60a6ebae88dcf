import { ToolError, type Warning } from '@gantry/contract'
import {
  type Candidates,
  type Hit,
  keyPrefix,
  type Plan,
  pick,
  readSearchCursor,
  type SearchCursor,
  TextIndex,
  writeSearchCursor,
} from '../search/index.ts'
import type { CatalogEntry, SearchOptions, SearchPage } from './catalog.ts'
import { dot, type Embedder, Vectors } from './embeddings.ts'
import { entryFilter, filterDigest, pageLimit } from './filter.ts'

/** Tools indexed per turn of the event loop: a few milliseconds of work. */
const slice = 500

/** The parts of a catalog that a search reads. */
interface SearchParts {
  readonly keys: () => Iterable<string>
  /** The entry of a key that a search returns. */
  readonly shown: (key: string) => CatalogEntry | undefined
  /** The aliases of all versions of a key, because each resolves to the tool as a whole. */
  readonly aliases: (key: string) => readonly string[]
  readonly embedder: Embedder | undefined
  /** Timeout of each embedder call. */
  readonly embedMs: number
}

/** Finds entries by words and, with an embedder, by meaning. Returns one entry per key. */
export class CatalogSearch {
  readonly #index = new TextIndex()
  readonly #vectors: Vectors | undefined
  /** Keys that the first search has not indexed yet: registration does no work that only a search needs. */
  #first: Iterator<string> | undefined
  /** Keys that changed since the first search began. */
  readonly #unread = new Set<string>()

  readonly #parts: SearchParts

  constructor(parts: SearchParts) {
    this.#parts = parts
    this.#vectors = parts.embedder && new Vectors(parts.embedder, parts.embedMs)
  }

  /** Records that the visible entry or the aliases of a key changed, with the entry before the change. */
  changed(key: string, before: CatalogEntry | undefined): void {
    if (this.#vectors !== undefined && before !== undefined && before.digest !== this.#parts.shown(key)?.digest) {
      this.#vectors.forget(before.digest)
    }
    if (this.#first !== undefined) this.#unread.add(key)
  }

  /** Indexes the changes since the last search, in slices, so that a large catalog does not block the event loop. */
  async #catchUp(signal: AbortSignal | undefined): Promise<void> {
    let count = 0
    for (let key = this.#nextUnread(); key !== undefined; key = this.#nextUnread()) {
      this.#read(key)
      count += 1
      if (count % slice !== 0) continue
      await new Promise((resolve) => setImmediate(resolve))
      if (signal?.aborted) throw cancelled(signal)
    }
  }

  /** The next key to index; concurrent searches share the work. A key registered meanwhile is included. */
  #nextUnread(): string | undefined {
    this.#first ??= this.#parts.keys()[Symbol.iterator]()
    const { value, done } = this.#first.next()
    if (!done) return value
    for (const key of this.#unread) {
      this.#unread.delete(key)
      return key
    }
    return undefined
  }

  #read(key: string): void {
    const entry = this.#parts.shown(key)
    if (entry === undefined) {
      this.#index.remove(key)
      return
    }
    const { name, namespace, title, tags, description, deprecated } = entry.tool
    this.#index.add({
      key,
      name,
      namespace,
      ...(title === undefined ? {} : { title }),
      ...(tags === undefined ? {} : { tags }),
      aliases: this.#parts.aliases(key),
      description,
      lowered: deprecated !== undefined,
    })
  }

  async search(query: string, options: SearchOptions): Promise<SearchPage> {
    const limit = pageLimit(options.limit, 10, 100)
    const matches = entryFilter(options)
    const digest = filterDigest(['search', query], options)
    const place = options.cursor === undefined ? undefined : readSearchCursor(digest, options.cursor)
    const meaning = await this.#meaning(query, place, options.signal)
    await this.#catchUp(options.signal)
    const plan = place?.plan ?? this.#index.plan(query)
    const { hits, top } = this.#hits(plan, place, limit + 1, meaning.vector, matches)
    const items = hits.slice(0, limit).flatMap(({ key, score }) => this.#item(key, score))
    const last = hits[limit - 1]
    const cursor =
      hits.length > limit && last !== undefined ? writeSearchCursor(digest, { plan, last, top }) : undefined
    return {
      items,
      ...(cursor === undefined ? {} : { cursor }),
      ...(meaning.warning === undefined ? {} : { warning: meaning.warning }),
    }
  }

  *#entries(): Generator<CatalogEntry> {
    for (const key of this.#parts.keys()) {
      const entry = this.#parts.shown(key)
      if (entry !== undefined) yield entry
    }
  }

  #item(key: string, score: number): { entry: CatalogEntry; score: number }[] {
    const entry = this.#parts.shown(key)
    return entry === undefined ? [] : [{ entry, score }]
  }

  #hits(
    plan: Plan,
    place: SearchCursor | undefined,
    count: number,
    vector: Float32Array | undefined,
    matches: (entry: CatalogEntry) => boolean,
  ): { readonly hits: readonly Hit[]; readonly top: number } {
    const allow = (key: string): boolean => {
      const entry = this.#parts.shown(key)
      return entry !== undefined && matches(entry)
    }
    if (vector === undefined || this.#vectors === undefined) {
      return { hits: this.#index.search(plan, place?.last, count, allow), top: 0 }
    }
    const words = this.#index.scores(plan)
    const top = place?.top ?? highest(words.values())
    const candidates = blend([...this.#entries()], words, top, vector, this.#vectors)
    return { hits: pick(candidates, place?.last, count, allow), top }
  }

  /**
   * The vector of the query, with the vectors of all tools completed. When the embedder fails, a first page falls back to
   * words, and a search that started with words continues with words; a search that started with embeddings cannot keep
   * its order without them and fails.
   */
  async #meaning(
    query: string,
    place: SearchCursor | undefined,
    signal: AbortSignal = new AbortController().signal,
  ): Promise<{ readonly vector?: Float32Array; readonly warning?: Warning }> {
    if (signal.aborted) throw cancelled(signal)
    if (this.#vectors === undefined || place?.top === 0) return {}
    let vector: Float32Array | undefined
    try {
      vector = await this.#vectors.query(query, signal)
      await this.#vectors.complete(this.#entries(), signal)
      return { vector }
    } catch (cause) {
      if (signal.aborted) throw cancelled(signal)
      if (place === undefined) return { warning: lexicalOnly }
      if (vector !== undefined) return { vector, warning: partly }
      throw new ToolError('BACKEND_UNAVAILABLE', 'The embedder failed; this cursor cannot continue without it.', {
        cause,
      })
    }
  }
}

function highest(scores: Iterable<number>): number {
  let most = 1
  for (const score of scores) if (score > most) most = score
  return most
}

const lexicalOnly: Warning = Object.freeze({
  code: 'BACKEND_UNAVAILABLE',
  message: 'The embedder failed; tools were searched by words alone.',
})

const partly: Warning = Object.freeze({
  code: 'BACKEND_UNAVAILABLE',
  message: 'The embedder failed; new tools were ranked by words alone.',
})

function cancelled(signal: AbortSignal): ToolError {
  return new ToolError('CANCELLED', 'The search was cancelled.', { cause: signal.reason, effect: 'none' })
}

/** Half by words, half by meaning; a similarity below the floor is noise. */
const share = 0.5
const floor = 0.2
const unit = 1_000_000

/**
 * Blends word and embedding scores: `share * words / top + (1 - share) * cosine`, as a whole number.
 * Rank fusion is more common, but ranks shift when tools change between pages; these scores do not, because the cursor
 * carries `top`.
 */
function blend(
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
