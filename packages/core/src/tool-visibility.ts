import type { Identity } from '@gantry/contract'
import type { Catalog, CatalogEntry } from './catalogs/catalog.ts'
import { CatalogHash } from './catalogs/digests.ts'
import { type NamedTool, type ToolMatcher, toolMatcher } from './ids/tool-pattern.ts'
import { canonicalJson, digestOf } from './json/canonical.ts'
import { missingPermissions } from './pipeline/authorize.ts'
import { namedBy } from './pipeline/lookup.ts'
import type { Ports } from './pipeline/ports.ts'
import type { Policy } from './policies/policy.ts'

/**
 * Whether a caller may find and describe a tool.
 * - `visible`: discovery lists it.
 * - `hidden`: a call reaches it and is denied by name; discovery leaves it out.
 * - `absent`: every answer is that for a name which no tool has.
 */
export type ToolVisibility = 'visible' | 'hidden' | 'absent'

/**
 * The visibility of a tool by its id, or of its most visible version when the id names none. For a tool that the catalog
 * does not know (it was removed, or its backend was not discovered yet) the name alone decides, and it is never visible.
 */
export function visibilityOf(
  { catalog, exists, visible }: Pick<Ports, 'catalog' | 'exists' | 'visible'>,
  id: string,
  identity: Identity,
): ToolVisibility {
  const named = namedBy(id)
  const key = `${named.namespace}:${named.name}`
  const versions = versionsOf(catalog, key).filter((version) => named.version === '' || named.version === version)
  if (versions.length === 0) return exists(identity, named) ? 'hidden' : 'absent'
  const entries = versions.map((version) => catalog.find(`${key}:${version}`))
  if (entries.some((entry) => visible(identity, entry))) return 'visible'
  return entries.some(({ tool }) => exists(identity, tool)) ? 'hidden' : 'absent'
}

function versionsOf(catalog: Catalog, key: string): readonly string[] {
  try {
    return catalog.versions(key)
  } catch {
    // Text that is not a tool id names no tool of the catalog.
    return []
  }
}

/** The ports that follow from the policy. Discovery shows the tools that an identity may call, as far as that can be decided without arguments. */
export function policyPorts(policy: Policy | undefined): Pick<Ports, 'policy' | 'exists' | 'visible'> {
  const exists = toolScope(policy)
  return {
    policy,
    exists,
    visible: (identity, { id, tool }) =>
      exists(identity, tool) &&
      missingPermissions(identity, tool).length === 0 &&
      (policy?.visible?.({ identity, id, tool }) ?? true),
  }
}

/** Whether a backend may have a tool that exists for the identity; `backend` is its key. */
export function anyExists({ exists }: Pick<Ports, 'exists'>, identity: Identity, backend: string): boolean {
  return exists(identity, { namespace: backend.slice(backend.indexOf(':') + 1), name: '', version: '' })
}

/** Hashes of the catalog as each caller sees it. A change to a hidden tool must not change the caller's hash. */
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
 * BM25 scores depend on every indexed tool, so a shared index would leak the presence of absent tools. A caller for whom
 * only some tools exist searches an index of those alone. It is built at the first search, shared between callers with the
 * same set of tools, and rebuilt when the catalog changes.
 */
export function createScopedSearch(
  { catalog, policy, exists }: Pick<Ports, 'catalog' | 'policy' | 'exists'>,
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
    const entries = [...entriesOf(catalog)].filter(({ tool }) => exists(identity, tool))
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

/** Whether a tool exists for an identity. Fast, and never throws. */
type ToolScope = (identity: Identity, tool: NamedTool) => boolean

/** Most pattern lists that are cached; identities of one API key or tenant share a list. */
const mostLists = 1_000

/** A tool must match the patterns of the identity and exist for the policy. */
export function toolScope(policy: Policy | undefined): ToolScope {
  const matchers = new Map<string, ToolMatcher>()
  const matcherOf = (patterns: readonly string[]): ToolMatcher => {
    const name = JSON.stringify(patterns)
    const known = matchers.get(name)
    if (known !== undefined) return known
    if (matchers.size >= mostLists) matchers.clear()
    const matcher = scopeOf(patterns)
    matchers.set(name, matcher)
    return matcher
  }
  return (identity, tool) => {
    const { tools } = identity
    if (tools !== undefined && !matcherOf(tools)(tool)) return false
    return policy?.exists === undefined || isThere(policy, identity, tool)
  }
}

/** An invalid or empty list matches no tool. */
function scopeOf(patterns: readonly string[]): ToolMatcher {
  const issues: never[] = []
  const matches = toolMatcher(patterns, '', issues)
  return issues.length === 0 ? matches : () => false
}

function isThere(policy: Policy, identity: Identity, tool: NamedTool): boolean {
  try {
    return policy.exists?.(identity, tool) === true
  } catch {
    return false
  }
}
