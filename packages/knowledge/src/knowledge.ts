import type { JsonObject, Warning } from '@gantry/contract'

/** A text that is to be found again. */
export interface NewDocument {
  /** Adding it again replaces what was there; made of text and source when absent. */
  readonly id?: string | undefined
  readonly text: string
  readonly title?: string | undefined
  /** Where the text is from, such as a URL; hits name it. */
  readonly source?: string | undefined
  readonly tags?: readonly string[] | undefined
  readonly metadata?: JsonObject | undefined
}

/** What is known of a document besides its text. */
export interface DocumentInfo {
  readonly id: string
  readonly title?: string
  readonly source?: string
  readonly tags: readonly string[]
  readonly metadata?: JsonObject
  /** Pieces that the text was cut into; joined they are the text. */
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
  /** Words in any order; `"…"` must stand as it is, and what follows a `-` must not. */
  readonly query: string
  readonly limit?: number | undefined
  /** Documents that have all of these. */
  readonly tags?: readonly string[] | undefined
  /** Documents from there. */
  readonly source?: string | undefined
  /** From the page before. */
  readonly cursor?: string | undefined
}

/** A piece of a document that fits a query. */
export interface KnowledgeHit {
  readonly id: string
  readonly title?: string
  readonly source?: string
  readonly tags: readonly string[]
  /** Which piece of the document it is; the first is 0. */
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

/** Some pieces of a document, from one on. */
export interface ChunkRange {
  readonly from: number
  readonly limit: number
}

export interface ReadDocument extends DocumentInfo {
  /** Of the pieces that were asked for. */
  readonly text: string
  /** The piece to go on from; absent when there is no more. */
  readonly next?: number
}

/** What a tenant may keep. */
export interface KnowledgeLimits {
  readonly documents: number
  /** Of all its texts together. */
  readonly bytes: number
}

/**
 * Texts of tenants, cut into pieces that are found by their words and, with an embedder, by their meaning.
 * - Tenants: nothing of one is there for another, not even in the scores.
 * - Concurrency: any number of callers. What one `add` brings is there as a whole or not at all.
 * - Repeats: adding what is there already changes nothing; removing what is gone removes nothing.
 * - Cancellation: everything ends with its signal; an `add` or `remove` that was cut short may have been done.
 * - Errors: NOT_FOUND for an id that is not there; INPUT_INVALID for a cursor of another search; LIMIT_EXCEEDED for more
 *   than the tenant may keep; STORE_UNAVAILABLE when the place cannot be reached.
 * - Ownership: what is handed in or out is copied.
 */
export interface Knowledge {
  /** Whether what is added outlives this process. */
  readonly lasting: boolean
  add(documents: readonly NewDocument[], tenant: string, signal: AbortSignal): Promise<Added>
  search(query: KnowledgeQuery, tenant: string, signal: AbortSignal): Promise<KnowledgePage>
  get(id: string, range: ChunkRange, tenant: string, signal: AbortSignal): Promise<ReadDocument>
  /** One document, or all from a source; says how many there were. */
  remove(
    which: { readonly id: string } | { readonly source: string },
    tenant: string,
    signal: AbortSignal,
  ): Promise<number>
}
