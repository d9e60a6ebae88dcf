import type { JsonObject, Warning } from '@gantry/contract'

/** A document to add. */
export interface NewDocument {
  /** Adding the same id again replaces the document; derived from text and source when absent. */
  readonly id?: string | undefined
  readonly text: string
  readonly title?: string | undefined
  /** Where the text is from, such as a URL; hits name it. */
  readonly source?: string | undefined
  readonly tags?: readonly string[] | undefined
  readonly metadata?: JsonObject | undefined
}

/** A document without its text. */
export interface DocumentInfo {
  readonly id: string
  readonly title?: string
  readonly source?: string
  readonly tags: readonly string[]
  readonly metadata?: JsonObject
  /** Number of chunks of the text; the chunks join to the text. */
  readonly chunks: number
  /** Of the text. */
  readonly bytes: number
  readonly addedAt: string
}

export interface AddedDocument {
  readonly id: string
  readonly state: 'added' | 'replaced' | 'unchanged'
  readonly chunks: number
  readonly bytes: number
}

export interface Added {
  readonly documents: readonly AddedDocument[]
  /** The embedder failed, so that these are found by their words alone. */
  readonly warning?: Warning
}

export interface KnowledgeQuery {
  /** Words in any order; a `"…"` phrase must occur exactly, and a word after `-` must not occur. */
  readonly query: string
  readonly limit?: number | undefined
  /** Only documents with all of these tags. */
  readonly tags?: readonly string[] | undefined
  /** Only documents of this source. */
  readonly source?: string | undefined
  /** The cursor of the previous page. */
  readonly cursor?: string | undefined
}

/** A chunk that matches a query. */
export interface KnowledgeHit {
  readonly id: string
  readonly title?: string
  readonly source?: string
  readonly tags: readonly string[]
  /** The index of the chunk in the document; the first is 0. */
  readonly position: number
  /** Where it begins in the text of the document, in UTF-16 units. */
  readonly start: number
  readonly text: string
  /** From 0 to 1, within this search. */
  readonly score: number
}

export interface KnowledgePage {
  /** The best first; equal ones by id and position. */
  readonly items: readonly KnowledgeHit[]
  /** Absent on the last page. */
  readonly cursor?: string
  readonly warning?: Warning
}

/** A range of chunks of a document. */
export interface ChunkRange {
  readonly from: number
  readonly limit: number
}

export interface ReadDocument extends DocumentInfo {
  /** The text of the requested chunks. */
  readonly text: string
  /** The next chunk; absent at the end. */
  readonly next?: number
}

/** The limits of a tenant. */
export interface KnowledgeLimits {
  readonly documents: number
  /** Of all its texts together. */
  readonly bytes: number
}

/**
 * Texts of tenants, split into chunks that are found by their words and, with an embedder, by their meaning.
 * - Tenants: documents of one tenant are invisible to others and do not affect their scores.
 * - Concurrency: any number of callers. An `add` is atomic.
 * - Idempotency: adding an existing document changes nothing; removing a missing one removes nothing.
 * - Cancellation: every operation ends with its signal; an aborted `add` or `remove` may have been committed.
 * - Errors: NOT_FOUND for an unknown id; INPUT_INVALID for a cursor of another search; LIMIT_EXCEEDED over the limits of
 *   the tenant; STORE_UNAVAILABLE when the store cannot be reached.
 * - Ownership: values are copied in and out.
 */
export interface Knowledge {
  /** Whether documents survive a restart of this process. */
  readonly lasting: boolean
  add(documents: readonly NewDocument[], tenant: string, signal: AbortSignal): Promise<Added>
  search(query: KnowledgeQuery, tenant: string, signal: AbortSignal): Promise<KnowledgePage>
  get(id: string, range: ChunkRange, tenant: string, signal: AbortSignal): Promise<ReadDocument>
  /** Removes one document, or all of a source; resolves with their number. */
  remove(
    which: { readonly id: string } | { readonly source: string },
    tenant: string,
    signal: AbortSignal,
  ): Promise<number>
}
