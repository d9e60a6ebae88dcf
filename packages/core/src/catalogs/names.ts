import type { Issue } from '@gantry/contract'
import { quote } from '../ids/quote.ts'
import type { ToolId } from '../ids/tool-id.ts'
import { editDistance, nearest, type SortedStrings } from '../search/index.ts'
import type { NamespaceInfo } from './catalog.ts'

/** A registered name. */
interface Claim {
  /** The name in its first spelling. */
  readonly text: string
  /** Key of the tool that it resolves to. */
  readonly key: string
  /** Number of versions that declare it. */
  count: number
}

/**
 * The owners of names. Names that differ only in case are equal, and keys and aliases share one table, so that no tool
 * can be registered that resembles or shadows an existing one.
 */
export class Names {
  readonly #claims = new Map<string, Claim>()
  readonly #namespaces = new Map<string, { readonly namespace: string; tools: number }>()

  /** The claim on a name, case-insensitively; a key without a claim has no versions. */
  claimOf(name: string): Claim | undefined {
    return this.#claims.get(name.toLowerCase())
  }

  /** The conflicts of registering this key, which has the claim `own`, with these aliases. */
  conflicts(own: Claim | undefined, key: string, namespace: string, aliases: readonly string[]): readonly Issue[] {
    const issues: Issue[] = []
    if (own !== undefined && (own.text !== key || own.key !== key)) issues.push(collision('/name', key, own))
    const space = this.#namespaces.get(namespace.toLowerCase())
    if (space !== undefined && space.namespace !== namespace) {
      issues.push({ path: '/namespace', message: `differs only in case from ${quote(space.namespace)}` })
    }
    aliases.forEach((alias, index) => {
      const claim = this.claimOf(alias)
      if (alias.toLowerCase() === key.toLowerCase()) {
        issues.push({ path: `/aliases/${index}`, message: 'is the name of the tool itself' })
      } else if (claim !== undefined && (claim.key !== key || claim.text !== alias)) {
        issues.push(collision(`/aliases/${index}`, alias, claim))
      }
    })
    return issues
  }

  claim(key: string, namespace: string, aliases: readonly string[]): void {
    if (this.#hold(key, key) === 1) this.#count(namespace, 1)
    for (const alias of aliases) this.#hold(alias, key)
  }

  release(key: string, namespace: string, aliases: readonly string[]): void {
    if (this.#drop(key) === 0) this.#count(namespace, -1)
    for (const alias of aliases) this.#drop(alias)
  }

  /** The key of an alias, case-sensitively. */
  target(alias: string): string | undefined {
    const claim = this.claimOf(alias)
    return claim?.text === alias ? claim.key : undefined
  }

  namespaces(): readonly NamespaceInfo[] {
    const all = [...this.#namespaces.values()].map(({ namespace, tools }) => ({ namespace, tools }))
    return all.sort((a, b) => (a.namespace < b.namespace ? -1 : 1))
  }

  #hold(name: string, key: string): number {
    const folded = name.toLowerCase()
    const claim = this.#claims.get(folded)
    if (claim === undefined) this.#claims.set(folded, { text: name, key, count: 1 })
    else claim.count += 1
    return claim?.count ?? 1
  }

  #drop(name: string): number {
    const folded = name.toLowerCase()
    const claim = this.#claims.get(folded)
    if (claim === undefined) return 0
    claim.count -= 1
    if (claim.count === 0) this.#claims.delete(folded)
    return claim.count
  }

  #count(namespace: string, by: number): void {
    const folded = namespace.toLowerCase()
    const space = this.#namespaces.get(folded) ?? { namespace, tools: 0 }
    space.tools += by
    if (space.tools === 0) this.#namespaces.delete(folded)
    else this.#namespaces.set(folded, space)
  }
}

function collision(path: string, name: string, claim: Claim): Issue {
  const owner = claim.text === claim.key ? 'a tool' : `an alias of ${quote(claim.key)}`
  const how = claim.text === name ? 'is the name of' : `differs only in case from ${quote(claim.text)},`
  return { path, message: `${quote(name)} ${how} ${owner}` }
}

const limit = 3
const nearNamespace = 3

/**
 * Suggestions for an unknown id: keys with a similar spelling, then the same name in other namespaces.
 * Only namespaces with a similar spelling are scanned, which keeps an unknown id cheap in a large catalog. Keys that `has`
 * rejects are never suggested.
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
