import type { CatalogEntry } from './catalog.ts'
import { normalTag } from './tool-check.ts'

/** A named part of the catalog: each part that is given narrows it, and `deny` wins over all of them. */
export interface Toolset {
  readonly namespaces?: readonly string[]
  /** An entry needs one of them. */
  readonly tags?: readonly string[]
  /** `namespace:name`, `namespace:name:version`, `namespace:*` or `*`. */
  readonly allow?: readonly string[]
  readonly deny?: readonly string[]
}

/** Turns a toolset into a test that costs a few set look-ups an entry. */
export function toolsetFilter(toolset: Toolset): (entry: CatalogEntry) => boolean {
  const namespaces = toolset.namespaces && new Set(toolset.namespaces)
  const tags = toolset.tags && new Set(toolset.tags.map(normalTag))
  const allow = toolset.allow && new Set(toolset.allow)
  const deny = new Set(toolset.deny)
  return (entry) =>
    (namespaces?.has(entry.tool.namespace) ?? true) &&
    (tags === undefined || (entry.tool.tags?.some((tag) => tags.has(tag)) ?? false)) &&
    (allow === undefined || named(allow, entry)) &&
    !named(deny, entry)
}

function named(patterns: ReadonlySet<string>, { key, id, tool }: CatalogEntry): boolean {
  if (patterns.size === 0) return false
  return patterns.has(key) || patterns.has(id) || patterns.has(`${tool.namespace}:*`) || patterns.has('*')
}
