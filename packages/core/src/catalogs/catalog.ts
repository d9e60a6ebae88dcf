import type { Tool, Warning } from '@gantry/contract'
import type { Toolset } from './filter.ts'

/** One version of a tool in the catalog: a checked, frozen copy. */
export interface CatalogEntry {
  /** `namespace:name:version`. */
  readonly id: string
  /** `namespace:name`. */
  readonly key: string
  readonly tool: Tool
  /** Covers everything a caller relies on; see `digests.ts`. */
  readonly digest: string
  /** Covers only what a call depends on, without texts: as `schemaDigest` it stays valid for a new description. */
  readonly callDigest: string
  /** The source that registered it. */
  readonly source: string
}

export interface RegisterOptions {
  /**
   * The source of the tool: `local`, or the name of a backend. All versions of a tool come from one source,
   * so that a server cannot take over a tool by publishing a newer version of it.
   */
  readonly source?: string | undefined
}

/** One page; `cursor` is present when more follows. */
export interface Page<T> {
  readonly items: readonly T[]
  readonly cursor?: string
}

/** Filters of a list or a search. */
export interface EntryFilter {
  readonly namespace?: string | undefined
  readonly tag?: string | undefined
  readonly toolset?: Toolset | undefined
  /** The permission check of the caller; called only for entries that pass all other filters. */
  readonly allow?: ((entry: CatalogEntry) => boolean) | undefined
}

export interface ListQuery extends EntryFilter {
  /** Every version, newest first, instead of the default version only. */
  readonly allVersions?: boolean | undefined
  /** 1 to 1,000; 100 when absent. */
  readonly limit?: number | undefined
  readonly cursor?: string | undefined
}

export interface SearchOptions extends EntryFilter {
  /** 1 to 100; 10 when absent. */
  readonly limit?: number | undefined
  readonly cursor?: string | undefined
  readonly signal?: AbortSignal | undefined
}

export interface SearchHit {
  readonly entry: CatalogEntry
  /** Comparable only within one search. */
  readonly score: number
}

export interface SearchPage extends Page<SearchHit> {
  /** The search is degraded: the embedder failed. */
  readonly warning?: Warning
}

export interface CatalogChange {
  readonly kind: 'registered' | 'updated' | 'unregistered'
  readonly key: string
  /** Full ids of the changed versions. */
  readonly ids: readonly string[]
}

export interface NamespaceInfo {
  readonly namespace: string
  /** Number of tools, not counting versions. */
  readonly tools: number
}

/** A viewer of the catalog. Some tools may be hidden from it. */
export interface Viewer {
  /** Whether the viewer can resolve the entry; otherwise `find` behaves as if it did not exist. */
  finds(entry: CatalogEntry): boolean
  /** Whether the entry may be suggested to the viewer as a near name. */
  sees(entry: CatalogEntry): boolean
}

/**
 * The registry of tools.
 * - Concurrency: every method but `search` is synchronous and atomic; `search` sees one state of the catalog per call.
 * - Ownership: `register` and `update` keep a frozen copy and never read the object of the caller again.
 * - Errors: ToolError only. A refused change changes nothing.
 * - Queries: an invalid filter, limit or cursor is INPUT_INVALID at its path, never ignored.
 * - Order: lists sort by key, then newest version first; hits by score, then key.
 * - Cursors survive changes: additions and removals between pages neither repeat nor skip an unchanged tool. A cursor
 *   belongs to its query and filters; with others, or malformed, it is INPUT_INVALID at `/cursor`.
 */
export interface Catalog {
  /**
   * Adds a version. The same definition again returns the existing entry. TOOL_INVALID for another definition under the
   * same version, for a name that differs only in case from an existing name or alias, and for a tool of another source.
   */
  register(tool: Tool, options?: RegisterOptions): CatalogEntry
  /** Adds or replaces a version; names are checked as in `register`. */
  update(tool: Tool, options?: RegisterOptions): CatalogEntry
  /** Removes one version, or all versions when the id has none. An alias or a range removes nothing. */
  unregister(id: string): boolean
  /**
   * The entry of an id or alias: the exact version, the newest in a range, or the newest stable one.
   * Deprecated versions count like others, so that a deprecation never changes which version runs.
   * Throws TOOL_ID_INVALID, or TOOL_NOT_FOUND with `details.nearest` and, for a missing version, `details.versions`.
   * For a viewer the result is exactly the same as without the entries that are hidden from it.
   */
  find(id: string, onlooker?: Viewer): CatalogEntry
  /** All registered versions of the tool of an id or alias, newest first; empty when there is none. */
  versions(id: string): readonly string[]
  list(query?: ListQuery): Page<CatalogEntry>
  /** Searches tools; an empty query lists by key. Rejects with CANCELLED when `signal` aborts. */
  search(query: string, options?: SearchOptions): Promise<SearchPage>
  namespaces(): readonly NamespaceInfo[]
  /** Hash of all digests, independent of the order of registration. */
  readonly hash: string
  /** Number of registered versions. */
  readonly size: number
  /** Calls the listener after each change. An error it throws is reported and does not affect other listeners. */
  subscribe(listener: (change: CatalogChange) => void): () => void
}
