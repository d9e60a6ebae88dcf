import type { Identity } from '@gantry/contract'
import type { Catalog, CatalogEntry } from './catalogs/catalog.ts'
import { canonicalJson, digestOf } from './json/canonical.ts'
import type { Ports } from './pipeline/ports.ts'

/** The catalog that a caller's searches go to. */
export type ScopedSearch = (identity: Identity) => Pick<Catalog, 'search'>

const mostCallers = 1_000
const mostCatalogs = 20
const pageSize = 1_000

/**
 * How well a tool fits the words of a search depends on all tools that are searched, and so would tell of those that are
 * not there for the caller. Whoever is bound to some of them searches a catalog of those alone, made when he first does,
 * shared with others who have the same ones, and made anew when the tools change.
 */
export function createScopedSearch(
  { catalog, policy, there }: Pick<Ports, 'catalog' | 'policy' | 'there'>,
  create: () => Catalog,
): ScopedSearch {
  const ofCaller = new Map<string, { readonly whole: string; readonly catalog: Catalog }>()
  const ofTools = new Map<string, Catalog>()
  const share = (entries: readonly CatalogEntry[]): Catalog => {
    const name = digestOf(entries.map(({ id, digest, source }) => [id, digest, source]))
    const known = ofTools.get(name)
    if (known !== undefined) return known
    const made = create()
    for (const { tool, source } of entries) made.register(tool, { source })
    keep(ofTools, name, made, mostCatalogs)
    return made
  }
  return (identity) => {
    if (identity.tools === undefined && policy?.exists === undefined) return catalog
    const name = canonicalJson(identity)
    const whole = catalog.hash
    const known = ofCaller.get(name)
    if (known?.whole === whole) return known.catalog
    const entries = [...entriesOf(catalog)].filter(({ tool }) => there(identity, tool))
    const own = entries.length === catalog.size ? catalog : share(entries)
    keep(ofCaller, name, { whole, catalog: own }, mostCallers)
    return own
  }
}

function* entriesOf(catalog: Catalog): Generator<CatalogEntry> {
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page = catalog.list({ allVersions: true, limit: pageSize, cursor })
    yield* page.items
    cursor = page.cursor
  }
}

function keep<T>(known: Map<string, T>, name: string, value: T, most: number): void {
  if (known.size >= most) known.clear()
  known.set(name, value)
}
