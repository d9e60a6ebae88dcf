import type { Embedder } from '@gantry/core/internal/catalogs/embeddings'
import { TextIndex } from '@gantry/core/internal/search/index'
import type { AddedDocument, DocumentInfo, Knowledge, KnowledgeLimits, KnowledgeQuery } from './knowledge.ts'
import { limitReached, type Prepared, prepareDocuments, unknownDocument } from './prepare.ts'
import { meetsConditions, type ParsedQuery, parseQuery } from './query.ts'
import { addedByWords, type Candidate, foundByWords, nearness, rankPage, vectorsOf } from './rank.ts'

export interface MemoryKnowledgeOptions {
  /** For each tenant; 10,000 documents and 64 MB. */
  readonly limits?: Partial<KnowledgeLimits>
  readonly embedder?: Embedder | undefined
}

/** Knowledge in the memory of this process, lost with it. A text beyond its capacity is refused; no other is dropped for it. */
export function memoryKnowledge({ limits, embedder }: MemoryKnowledgeOptions = {}): Knowledge {
  const { documents: most = 10_000, bytes: mostBytes = 67_108_864 } = limits ?? {}
  const shelves = new Map<string, Shelf>()
  const shelfOf = (tenant: string): Shelf => {
    const found = shelves.get(tenant) ?? { documents: new Map(), index: new TextIndex(), bytes: 0 }
    shelves.set(tenant, found)
    return found
  }
  return {
    lasting: false,
    async add(documents, tenant, signal) {
      const prepared = await prepareDocuments(documents, signal)
      const texts = prepared.flatMap(({ chunks }) => chunks.map(({ text }) => text))
      const vectors = embedder === undefined ? [] : await vectorsOf(embedder, texts, signal)
      const shelf = shelfOf(tenant)
      refuseBeyond(shelf, prepared, most, mostBytes)
      let at = 0
      const added = prepared.map((document): AddedDocument => {
        const own = vectors?.slice(at, at + document.chunks.length) ?? []
        at += document.chunks.length
        return put(shelf, document, own)
      })
      return { documents: added, ...(vectors === undefined ? { warning: addedByWords } : {}) }
    },
    async search(query, tenant, signal) {
      const asked = parseQuery(query.query)
      const vector = embedder === undefined ? undefined : (await vectorsOf(embedder, [query.query], signal))?.[0]
      const shelf = shelfOf(tenant)
      const page = rankPage(candidatesOf(shelf, query, asked, vector), query, vector !== undefined)
      const items = page.items.flatMap(({ id, position, score }) => {
        const kept = shelf.documents.get(id)
        const chunk = kept?.document.chunks[position]
        if (kept === undefined || chunk === undefined) return []
        const { metadata: _metadata, chunks: _chunks, bytes: _bytes, addedAt: _addedAt, ...info } = infoOf(kept)
        return [{ ...info, position, start: chunk.start, text: chunk.text, score }]
      })
      const failed = embedder !== undefined && vector === undefined
      return { ...page, items, ...(failed ? { warning: foundByWords } : {}) }
    },
    async get(id, { from, limit }, tenant) {
      const kept = shelfOf(tenant).documents.get(id)
      if (kept === undefined) throw unknownDocument()
      const { chunks } = kept.document
      const text = chunks
        .slice(from, from + limit)
        .map((chunk) => chunk.text)
        .join('')
      return { ...infoOf(kept), text, ...(from + limit < chunks.length ? { next: from + limit } : {}) }
    },
    async remove(which, tenant) {
      const shelf = shelfOf(tenant)
      const gone = [...shelf.documents.values()].filter(({ document }) =>
        'id' in which ? document.id === which.id : document.source === which.source,
      )
      for (const { document } of gone) take(shelf, document.id)
      return gone.length
    },
  }
}

interface StoredDocument {
  readonly document: Prepared
  readonly vectors: readonly Float32Array[]
  readonly addedAt: string
}

/** The documents of one tenant. */
interface Shelf {
  readonly documents: Map<string, StoredDocument>
  readonly index: TextIndex
  bytes: number
}

/** Runs before anything is stored, so that an `add` is atomic. */
function refuseBeyond(shelf: Shelf, prepared: readonly Prepared[], most: number, mostBytes: number): void {
  const before = (id: string): number | undefined => shelf.documents.get(id)?.document.bytes
  const fresh = prepared.filter(({ id }) => before(id) === undefined).length
  if (shelf.documents.size + fresh > most) throw limitReached('documents', most)
  const more = prepared.reduce((sum, { id, bytes }) => sum + bytes - (before(id) ?? 0), 0)
  if (shelf.bytes + more > mostBytes) throw limitReached('bytes', mostBytes)
}

function put(shelf: Shelf, document: Prepared, vectors: readonly Float32Array[]): AddedDocument {
  const { id, bytes, title, tags } = document
  const before = shelf.documents.get(id)
  const chunks = document.chunks.length
  if (before?.document.digest === document.digest) return { id, state: 'unchanged', chunks, bytes }
  take(shelf, id)
  shelf.documents.set(id, { document, vectors, addedAt: new Date().toISOString() })
  shelf.bytes += bytes
  document.chunks.forEach(({ text }, position) => {
    const named = title === undefined ? {} : { title }
    shelf.index.add({ key: keyOf(id, position), name: '', namespace: '', ...named, tags, description: text })
  })
  return { id, state: before === undefined ? 'added' : 'replaced', chunks, bytes }
}

function take(shelf: Shelf, id: string): void {
  const kept = shelf.documents.get(id)
  if (kept === undefined) return
  shelf.documents.delete(id)
  shelf.bytes -= kept.document.bytes
  for (const position of kept.document.chunks.keys()) shelf.index.remove(keyOf(id, position))
}

function keyOf(id: string, position: number): string {
  return `${id}#${position}`
}

/** Chunks that match the words; with a vector all chunks of the tenant, because meaning needs no common word. */
function candidatesOf(
  shelf: Shelf,
  { tags = [], source }: KnowledgeQuery,
  asked: ParsedQuery,
  vector: Float32Array | undefined,
): readonly Candidate[] {
  const scores = shelf.index.scores(shelf.index.plan(asked.words.join(' ')))
  const keys = vector === undefined ? scores.keys() : allKeys(shelf)
  const found: Candidate[] = []
  for (const key of keys) {
    const id = key.slice(0, key.lastIndexOf('#'))
    const position = Number(key.slice(id.length + 1))
    const kept = shelf.documents.get(id)
    const chunk = kept?.document.chunks[position]
    if (kept === undefined || chunk === undefined) continue
    const { document } = kept
    if (source !== undefined && document.source !== source) continue
    if (!tags.every((tag) => document.tags.includes(tag)) || !meetsConditions(asked, chunk.text)) continue
    const meaning = vector === undefined ? undefined : nearness(kept.vectors[position], vector)
    found.push({ id, position, words: scores.get(key) ?? 0, meaning })
  }
  return found
}

function* allKeys({ documents }: Shelf): Generator<string, void> {
  for (const [id, { document }] of documents) for (const position of document.chunks.keys()) yield keyOf(id, position)
}

function infoOf({ document, addedAt }: StoredDocument): DocumentInfo {
  const { id, title, source, tags, metadata, chunks, bytes } = document
  return {
    id,
    ...(title === undefined ? {} : { title }),
    ...(source === undefined ? {} : { source }),
    tags: [...tags],
    ...(metadata === undefined ? {} : { metadata: structuredClone(metadata) }),
    chunks: chunks.length,
    bytes,
    addedAt,
  }
}
