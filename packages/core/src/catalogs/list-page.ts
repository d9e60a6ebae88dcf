import { parseVersion } from '../ids/version.ts'
import { cursorFault, decodeCursor, encodeCursor, type SortedStrings } from '../search/index.ts'
import type { CatalogEntry, ListQuery, Page } from './catalog.ts'
import { entryFilter, filterDigest, pageLimit } from './filter.ts'
import type { Versions } from './versions.ts'

const kind = 'l1'

interface Place {
  readonly key: string
  readonly version: string
}

/** One page of the catalog by key, walked from the place where the cursor stands, so that it holds across changes. */
export function listPage(
  keys: SortedStrings,
  versions: ReadonlyMap<string, Versions>,
  query: ListQuery,
): Page<CatalogEntry> {
  const limit = pageLimit(query.limit, 100, 1_000)
  const matches = entryFilter(query)
  const digest = filterDigest([query.allVersions ?? false], query)
  const place = query.cursor === undefined ? undefined : readPlace(query.cursor, digest)
  const items: CatalogEntry[] = []
  for (const key of keys.from(place?.key ?? prefix(query))) {
    if (!key.startsWith(prefix(query))) break
    for (const entry of shown(versions.get(key), key, place, query)) {
      if (!matches(entry)) continue
      if (items.length === limit) return { items, cursor: writePlace(items, digest) }
      items.push(entry)
    }
  }
  return { items }
}

/** Keys of one namespace stand together, so the walk can begin and end with them. */
function prefix({ namespace }: ListQuery): string {
  return namespace === undefined ? '' : `${namespace}:`
}

/** The versions of one key that come after the cursor's place. */
function shown(
  held: Versions | undefined,
  key: string,
  place: Place | undefined,
  query: ListQuery,
): readonly CatalogEntry[] {
  if (held === undefined) return []
  const here = place !== undefined && place.key === key
  if (query.allVersions) return held.after(here ? parseVersion(place.version) : undefined)
  return here || held.head === undefined ? [] : [held.head]
}

function writePlace(items: readonly CatalogEntry[], digest: string): string {
  const last = items[items.length - 1]
  return encodeCursor(kind, [digest, last?.key, last?.tool.version])
}

function readPlace(cursor: string, digest: string): Place {
  const [found, key, version, ...rest] = decodeCursor(kind, cursor)
  if (found !== digest || typeof key !== 'string' || typeof version !== 'string' || rest.length > 0) throw cursorFault()
  if (key.length > 256 || parseVersion(version) === undefined) throw cursorFault()
  return { key, version }
}
