import { compareVersions, parseVersion, type Range, satisfies, type Version } from '../ids/version.ts'
import { cursorFault, decodeCursor, encodeCursor, type SortedStrings } from '../search/index.ts'
import type { CatalogEntry, ListQuery, Page } from './catalog.ts'
import { entryFilter, filterDigest, pageLimit } from './filter.ts'

interface Held {
  readonly version: Version
  readonly entry: CatalogEntry
}

/** The versions of one tool, newest first. Versions that differ only in build metadata are equal. */
export class Versions {
  readonly #held: Held[] = []

  get entries(): readonly CatalogEntry[] {
    return this.#held.map(({ entry }) => entry)
  }

  get size(): number {
    return this.#held.length
  }

  /** The version of an id without a version: the newest stable one, even when deprecated. */
  get stable(): CatalogEntry | undefined {
    for (const { version, entry } of this.#held) if (version.prerelease.length === 0) return entry
    return undefined
  }

  /** The version in lists: the newest stable one, or the newest when none is stable. */
  get head(): CatalogEntry | undefined {
    return this.stable ?? this.#held[0]?.entry
  }

  /** The versions that pass a test: `this` when all do, undefined when none does. */
  only(isWanted: (entry: CatalogEntry) => boolean): Versions | undefined {
    const wanted = this.#held.filter(({ entry }) => isWanted(entry))
    if (wanted.length === 0) return undefined
    if (wanted.length === this.#held.length) return this
    const some = new Versions()
    some.#held.push(...wanted)
    return some
  }

  /** The entry of exactly this version. */
  get(version: Version): CatalogEntry | undefined {
    const held = this.#held[this.#position(version)]
    return held !== undefined && compareVersions(held.version, version) === 0 ? held.entry : undefined
  }

  /** The newest version in a range. */
  match(range: Range): CatalogEntry | undefined {
    if (range.exact !== undefined) return this.get(range.exact)
    return this.#held.find(({ version }) => satisfies(version, range))?.entry
  }

  /** Inserts an entry and returns the one that it replaced. */
  put(entry: CatalogEntry, version: Version): CatalogEntry | undefined {
    const position = this.#position(version)
    const held = this.#held[position]
    const replaced = held !== undefined && compareVersions(held.version, version) === 0
    this.#held.splice(position, replaced ? 1 : 0, { version, entry })
    return replaced ? held.entry : undefined
  }

  delete(entry: CatalogEntry): void {
    const position = this.#held.findIndex((held) => held.entry === entry)
    if (position >= 0) this.#held.splice(position, 1)
  }

  /** Entries older than a version, newest first; all entries without one. */
  after(version: Version | undefined): readonly CatalogEntry[] {
    const older =
      version === undefined ? this.#held : this.#held.filter((held) => compareVersions(held.version, version) < 0)
    return older.map(({ entry }) => entry)
  }

  /** Index of the first version that is not newer. */
  #position(version: Version): number {
    const found = this.#held.findIndex((held) => compareVersions(held.version, version) <= 0)
    return found < 0 ? this.#held.length : found
  }
}

const kind = 'l1'

interface PageCursor {
  readonly key: string
  readonly version: string
}

/** One page of the catalog by key, from the position of the cursor, so that pages stay consistent across changes. */
export function listPage(
  keys: SortedStrings,
  versions: ReadonlyMap<string, Versions>,
  query: ListQuery,
): Page<CatalogEntry> {
  const limit = pageLimit(query.limit, 100, 1_000)
  const matches = entryFilter(query)
  const digest = filterDigest([query.allVersions ?? false], query)
  const place = query.cursor === undefined ? undefined : readCursor(query.cursor, digest)
  const items: CatalogEntry[] = []
  for (const key of keys.from(place?.key ?? prefix(query))) {
    if (!key.startsWith(prefix(query))) break
    for (const entry of shown(versions.get(key), key, place, query)) {
      if (!matches(entry)) continue
      if (items.length === limit) return { items, cursor: writeCursor(items, digest) }
      items.push(entry)
    }
  }
  return { items }
}

/** Keys of one namespace are adjacent, so the iteration covers only them. */
function prefix({ namespace }: ListQuery): string {
  return namespace === undefined ? '' : `${namespace}:`
}

/** The versions of one key after the position of the cursor. */
function shown(
  held: Versions | undefined,
  key: string,
  place: PageCursor | undefined,
  query: ListQuery,
): readonly CatalogEntry[] {
  if (held === undefined) return []
  const here = place !== undefined && place.key === key
  if (query.allVersions) return held.after(here ? parseVersion(place.version) : undefined)
  return here || held.head === undefined ? [] : [held.head]
}

function writeCursor(items: readonly CatalogEntry[], digest: string): string {
  const last = items[items.length - 1]
  return encodeCursor(kind, [digest, last?.key, last?.tool.version])
}

function readCursor(cursor: string, digest: string): PageCursor {
  const [found, key, version, ...rest] = decodeCursor(kind, cursor)
  if (found !== digest || typeof key !== 'string' || typeof version !== 'string' || rest.length > 0) throw cursorFault()
  if (key.length > 256 || parseVersion(version) === undefined) throw cursorFault()
  return { key, version }
}
