import type { Tool, Warning } from '@gantry/contract'
import type { Toolset } from './filter.ts'

/** One version of a tool as the catalog keeps it: checked, copied and frozen. */
export interface CatalogEntry {
  /** `namespace:name:version`. */
  readonly id: string
  /** `namespace:name`. */
  readonly key: string
  readonly tool: Tool
  /** Of everything a caller relies on; see `fingerprint.ts`. */
  readonly digest: string
  /** Of what a call depends on, which its texts are not part of; as `schemaDigest` it lets a new description pass. */
  readonly callDigest: string
  /** Who registered it. */
  readonly source: string
}

export interface RegisterOptions {
  /**
   * Who brings the tool: `local`, or the name of a backend. All versions of a tool come from one source,
   * so that a server cannot take a tool over by offering a newer version of it.
   */
  readonly source?: string | undefined
}

/** One page; `cursor` is there when more follows. */
export interface Page<T> {
  readonly items: readonly T[]
  readonly cursor?: string
}

/** Which entries a reader wants to see. */
export interface EntryFilter {
  readonly namespace?: string | undefined
  readonly tag?: string | undefined
  readonly toolset?: Toolset | undefined
  /** The caller's permission; asked only of entries that would otherwise be in the answer. */
  readonly allow?: ((entry: CatalogEntry) => boolean) | undefined
}

export interface ListQuery extends EntryFilter {
  /** Every version, newest first, instead of the one that the id without a version finds. */
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
  /** Comparable within one search only. */
  readonly score: number
}

export interface SearchPage extends Page<SearchHit> {
  /** The answer is good but less so than it could be: the embedder failed. */
  readonly warning?: Warning
}

export interface CatalogChange {
  readonly kind: 'registered' | 'updated' | 'unregistered'
  readonly key: string
  /** Full ids of the versions that changed. */
  readonly ids: readonly string[]
}

export interface NamespaceInfo {
  readonly namespace: string
  /** Tools in it, versions not counted. */
  readonly tools: number
}

/** Who asks for a tool, where not everybody may know of all of them. */
export interface Viewer {
  /** Whether there is such an entry for him; where there is none, the answer is that of a name nobody has. */
  finds(entry: CatalogEntry): boolean
  /** Whether he may be told of the entry, as of one that he may have meant. */
  sees(entry: CatalogEntry): boolean
}

/**
 * Which tools exist.
 * - Concurrency: every method but `search` is synchronous and whole; `search` sees one state of the catalog per call.
 * - Ownership: `register` and `update` keep a frozen copy; the caller's object is never read again.
 * - Errors: ToolError only. What is refused changes nothing.
 * - Questions: a filter, limit or cursor that is not understood is INPUT_INVALID at its path, never ignored.
 * - Order: lists go by key, then newest version first; hits by score, then key.
 * - Cursors hold across changes: an unchanged tool is neither repeated nor skipped by additions and removals between
 *   pages. A cursor belongs to its query and filters; with others, or malformed, it is INPUT_INVALID at `/cursor`.
 */
export interface Catalog {
  /**
   * Adds a version. The same definition again gives the existing entry; another under the same version, or one whose
   * name differs only in case from an existing name or alias, or that is another source's, is TOOL_INVALID.
   */
  register(tool: Tool, options?: RegisterOptions): CatalogEntry
  /** Adds a version or replaces it; names are guarded as in `register`. */
  update(tool: Tool, options?: RegisterOptions): CatalogEntry
  /** Removes one version, or all when the id names none. An alias or a range removes nothing. */
  unregister(id: string): boolean
  /**
   * The entry that an id or alias names: the exact version, the newest in a range, or the newest stable one.
   * Deprecated versions count like others, so that a deprecation never changes what runs.
   * Throws TOOL_ID_INVALID, or TOOL_NOT_FOUND with `details.nearest` and, for a missing version, `details.versions`.
   * To an onlooker the answer is, to the letter, what it would be without the entries that are not there for him.
   */
  find(id: string, onlooker?: Viewer): CatalogEntry
  /** All registered versions of the tool that an id or alias names, newest first; empty when there is none. */
  versions(id: string): readonly string[]
  list(query?: ListQuery): Page<CatalogEntry>
  /** Finds tools by meaning of words; an empty query lists by key. Rejects with CANCELLED when `signal` aborts. */
  search(query: string, options?: SearchOptions): Promise<SearchPage>
  namespaces(): readonly NamespaceInfo[]
  /** Of all digests, whatever the order of registration. */
  readonly hash: string
  /** Registered versions. */
  readonly size: number
  /** Calls the listener after each change; one that throws is reported and does not stop the others. */
  subscribe(listener: (change: CatalogChange) => void): () => void
}
