import type { ToolId } from '../ids/tool-id.ts'
import { editDistance, nearest, type SortedStrings } from '../search/index.ts'
import type { NamespaceInfo } from './catalog.ts'

const limit = 3
const nearNamespace = 3

/**
 * The keys that somebody who wrote this id may have meant: those spelled nearly so, then the same name elsewhere.
 * Only namespaces spelled nearly so are walked, which keeps a wrong id cheap in a large catalog. Keys that `has` says no
 * to are as if they were not there.
 */
export function nearestKeys(
  { namespace, name }: ToolId,
  namespaces: readonly NamespaceInfo[],
  keys: SortedStrings,
  has: (key: string) => boolean,
): readonly string[] {
  const near: string[] = []
  const elsewhere: string[] = []
  for (const { namespace: other } of namespaces) {
    if (editDistance(other.toLowerCase(), namespace.toLowerCase(), nearNamespace) <= nearNamespace) near.push(other)
    else if (has(`${other}:${name}`)) elsewhere.push(`${other}:${name}`)
  }
  const spelled = nearest(`${namespace}:${name}`, keysOf(near, keys, has), { limit })
  return [...spelled, ...elsewhere].slice(0, limit)
}

function* keysOf(namespaces: readonly string[], keys: SortedStrings, has: (key: string) => boolean): Generator<string> {
  for (const namespace of namespaces) {
    for (const key of keys.from(`${namespace}:`)) {
      if (!key.startsWith(`${namespace}:`)) break
      if (has(key)) yield key
    }
  }
}
