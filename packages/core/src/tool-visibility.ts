import type { Identity } from '@gantry/contract'
import type { Catalog, CatalogEntry } from './catalogs/catalog.ts'
import { CatalogHash } from './catalogs/digests.ts'
import { canonicalJson, digestOf } from './json/canonical.ts'
import { missingPermissions } from './pipeline/authorize.ts'
import { namedBy } from './pipeline/lookup.ts'
import type { Ports } from './pipeline/ports.ts'
import type { Policy } from './policies/policy.ts'
import { toolScope } from './policies/tool-scope.ts'

/** What a tool is to somebody: shown to him; there, though he is not shown it; or as if there were none. */
export type ToolStanding = 'shown' | 'there' | 'absent'

/**
 * The standing of a tool by its id, or of the best of its versions when the id names none. Of one that the catalog does
 * not know (it is gone, or its backend was not asked yet) the name alone decides, and nobody is shown it.
 */
export function standingOf(
  { catalog, there, visible }: Pick<Ports, 'catalog' | 'there' | 'visible'>,
  id: string,
  identity: Identity,
): ToolStanding {
  const named = namedBy(id)
  const key = `${named.namespace}:${named.name}`
  const versions = versionsOf(catalog, key).filter((version) => named.version === '' || named.version === version)
  if (versions.length === 0) return there(identity, named) ? 'there' : 'absent'
  const entries = versions.map((version) => catalog.find(`${key}:${version}`))
  if (entries.some((entry) => visible(identity, entry))) return 'shown'
  return entries.some(({ tool }) => there(identity, tool)) ? 'there' : 'absent'
}

function versionsOf(catalog: Catalog, key: string): readonly string[] {
  try {
    return catalog.versions(key)
  } catch {
    // What is no id is the name of nothing that the catalog has.
    return []
  }
}

/** What of the ports follows from the policy. Discovery shows what the identity may call as far as is known without arguments. */
export function policyPorts(policy: Policy | undefined): Pick<Ports, 'policy' | 'there' | 'visible'> {
  const there = toolScope(policy)
  return {
    policy,
    there,
    visible: (identity, { id, tool }) =>
      there(identity, tool) &&
      missingPermissions(identity, tool).length === 0 &&
      (policy?.visible?.({ identity, id, tool }) ?? true),
  }
}

/** Whether any tool of a backend may be there for an identity; `backend` is its key. */
export function isThereAny({ there }: Pick<Ports, 'there'>, identity: Identity, backend: string): boolean {
  return there(identity, { namespace: backend.slice(backend.indexOf(':') + 1), name: '', version: '' })
}

/** Hashes of the catalog as callers see it: what is hidden from one must not show in a hash that changes with it. */
interface Hashes {
  of(identity: Identity): string
}

const mostRemembered = 100

/** Made by walking the whole catalog, and remembered until it changes. */
export function createHashes({ catalog, visible }: Pick<Ports, 'catalog' | 'visible'>): Hashes {
  const known = new Map<string, { readonly whole: string; readonly hash: string }>()
  const walk = (identity: Identity): string => {
    const hash = new CatalogHash()
    for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
      const allow = (entry: Parameters<typeof visible>[1]): boolean => visible(identity, entry)
      const page = catalog.list({ allVersions: true, limit: pageSize, cursor, allow })
      for (const entry of page.items) hash.add(entry)
      cursor = page.cursor
    }
    return hash.read()
  }
  return {
    of(identity) {
      const name = canonicalJson(identity)
      const whole = catalog.hash
      const before = known.get(name)
      if (before?.whole === whole) return before.hash
      const hash = walk(identity)
      if (known.size >= mostRemembered) known.clear()
      known.set(name, { whole, hash })
      return hash
    },
  }
}

/** The catalog that a caller's searches go to. */
type ScopedSearch = (identity: Identity) => Pick<Catalog, 'search'>

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
