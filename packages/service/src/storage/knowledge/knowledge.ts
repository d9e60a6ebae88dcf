import type { Embedder } from '@gantry/core'
import type { Knowledge, KnowledgeLimits } from '@gantry/knowledge'
import { type Prepared, prepareDocuments, unknownDocument } from '@gantry/knowledge/internal/prepare'
import { addedByWords, foundByWords, nearness, rankPage, vectorsOf } from '@gantry/knowledge/internal/rank'
import type { LoadedConfig } from '../../config/config.ts'
import { type Database, type Queries, storable } from '../databases/database.ts'
import { addPrepared, lockUse, presentIn, removeAll } from './knowledge-add.ts'
import { candidatesOf, hitsOf, type InfoRow, infoOf } from './knowledge-search.ts'
import * as sql from './knowledge-statements.ts'
import { type KnowledgeBounds, usualBounds } from './knowledge-statements.ts'

export interface KnowledgeOptions {
  /** Limits per tenant. */
  readonly limits: KnowledgeLimits
  readonly embedder?: Embedder | undefined
  /** Limits of a single statement; defaults when absent. */
  readonly bounds?: Partial<KnowledgeBounds>
}

/** The default quota of a tenant's knowledge base. */
const usualLimits: KnowledgeLimits = { documents: 100_000, bytes: 1_000_000_000 }

/** The options of a configuration's settings, with the default quota. */
export function knowledgeOptions({ embedder, ...limits }: LoadedConfig['knowledge'] = {}): KnowledgeOptions {
  return { limits: { ...usualLimits, ...limits }, embedder }
}

/** The knowledge of tenants in the tables `knowledge` and `knowledge_chunks`; what leaves is read as the tenant. */
export function knowledgeRecords(database: Database, options: KnowledgeOptions): Knowledge {
  const { limits, embedder } = options
  const bounds = { ...usualBounds, ...options.bounds }
  return {
    lasting: true,
    async add(documents, tenant, signal) {
      const prepared = (await prepareDocuments(documents, signal)).map((document) => marked(document, embedder))
      const before = await presentIn(database.asTenant(tenant), tenant, prepared)
      const fresh = prepared.filter(({ id, digest }) => before.get(id)?.digest !== digest)
      const vectors = embedder === undefined ? new Map() : await vectorsByText(embedder, fresh, signal)
      // Without vectors the digest has no embedder, so that adding them again once it works is a change.
      const kept = vectors === undefined ? prepared.map((one) => (fresh.includes(one) ? unmarked(one) : one)) : prepared
      signal.throwIfAborted()
      const meanings = { model: embedder?.id, vectors: vectors ?? new Map() }
      const added = await addPrepared({ database, tenant, limits, bounds, meanings }, kept, before, signal)
      return { documents: added, ...(vectors === undefined ? { warning: addedByWords } : {}) }
    },
    async search(query, tenant, signal) {
      const vector = embedder === undefined ? undefined : (await vectorsOf(embedder, [query.query], signal))?.[0]
      const known = vector === undefined ? undefined : embedder?.id
      const rows = await candidatesOf(database, query, tenant, known, bounds, signal)
      const candidates = rows.map((row) => ({
        ...row,
        meaning: vector === undefined ? undefined : nearness(vectorOf(row.vector), vector),
      }))
      const page = rankPage(candidates, query, vector !== undefined)
      signal.throwIfAborted()
      const items = await hitsOf(database.asTenant(tenant), tenant, page.items)
      const failed = embedder !== undefined && vector === undefined
      return { ...page, items, ...(failed ? { warning: foundByWords } : {}) }
    },
    async get(id, { from, limit }, tenant) {
      const [row] = await database.asTenant(tenant).query<DocumentRow>(sql.getSql, [tenant, storable(id), from, limit])
      if (row === undefined) throw unknownDocument()
      const { metadata, chunks, bytes, added_at, text } = row
      return {
        ...infoOf(row),
        ...(metadata === null ? {} : { metadata: JSON.parse(metadata) }),
        chunks,
        bytes,
        addedAt: added_at.toISOString(),
        text,
        ...(from + limit < chunks ? { next: from + limit } : {}),
      }
    },
    remove: (which, tenant) =>
      database.transaction(async (queries) => {
        await lockUse(queries, tenant)
        const found = 'id' in which ? [{ id: which.id }] : await fromSource(queries, tenant, which.source)
        return removeAll(
          queries,
          tenant,
          found.map(({ id }) => storable(id)),
        )
      }),
  }
}

type DocumentRow = InfoRow & {
  readonly metadata: string | null
  readonly chunks: number
  readonly bytes: number
  readonly added_at: Date
  readonly text: string
}

function fromSource(queries: Queries, tenant: string, source: string): Promise<readonly { id: string }[]> {
  return queries.query<{ id: string }>(sql.fromSourceSql, [tenant, storable(source)])
}

/** Adds the embedder to the digest, so that adding the document again with another one is a change. */
function marked(document: Prepared, embedder: Embedder | undefined): Prepared {
  return embedder === undefined ? document : { ...document, digest: `${document.digest} ${storable(embedder.id)}` }
}

function unmarked(document: Prepared): Prepared {
  return { ...document, digest: document.digest.split(' ', 1)[0] ?? '' }
}

/** Undefined when the embedder failed. */
async function vectorsByText(
  embedder: Embedder,
  prepared: readonly Prepared[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Float32Array> | undefined> {
  const texts = [...new Set(prepared.flatMap(({ chunks }) => chunks.map(({ text }) => text)))]
  const vectors = await vectorsOf(embedder, texts, signal)
  return vectors && new Map(vectors.map((vector, index) => [texts[index] ?? '', vector]))
}

/** Copies the bytes, because a Float32Array must be aligned to four bytes. */
function vectorOf(text: string | null): Float32Array | undefined {
  return text === null ? undefined : new Float32Array(Uint8Array.from(Buffer.from(text, 'base64')).buffer)
}
