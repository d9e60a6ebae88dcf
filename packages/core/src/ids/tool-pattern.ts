import type { Issue } from '@gantry/contract'
import { quote } from './quote.ts'
import { readTexts } from './text-list.ts'
import { namespaceFault, toolNameFault } from './tool-id.ts'
import { compareVersions, parseVersion, type Version } from './version.ts'

/** The part of a Tool that a pattern matches. */
export interface NamedTool {
  readonly namespace: string
  readonly name: string
  readonly version: string
}

/**
 * A parsed pattern, in lower case: a catalog has no two names that differ only in case, so a deny in another case must
 * match too.
 */
type ToolPattern =
  | { readonly kind: 'all' }
  | { readonly kind: 'namespace'; readonly namespace: string }
  | { readonly kind: 'prefix'; readonly namespace: string; readonly prefix: string }
  | { readonly kind: 'tool'; readonly key: string }
  | { readonly kind: 'version'; readonly key: string; readonly version: Version }

const forms = 'write `*`, `namespace:*`, `namespace:prefix*`, `namespace:name` or `namespace:name:1.0.0`'

/** Tests whether a tool matches a pattern. */
export interface ToolMatcher {
  (tool: NamedTool): boolean
  /** The only namespaces, in lower case, that can match; absent when any can. */
  readonly namespaces?: ReadonlySet<string>
}

/**
 * Compiles an untrusted list of patterns into one test, which costs a few look-ups per tool for any number of patterns.
 * Reports each invalid pattern; the caller then refuses the whole list.
 */
export function toolMatcher(patterns: unknown, path: string, issues: Issue[]): ToolMatcher {
  return matcherOf(readTexts(patterns, path, issues, forms, readPattern))
}

/** Like `toolMatcher`, and also accepts a single pattern instead of a list. */
export function oneOrMoreMatcher(patterns: unknown, path: string, issues: Issue[]): ToolMatcher {
  if (typeof patterns !== 'string') return toolMatcher(patterns, path, issues)
  const pattern = readPattern(patterns, path, issues)
  return matcherOf(pattern === undefined ? [] : [pattern])
}

function readPattern(text: string, path: string, issues: Issue[]): ToolPattern | undefined {
  const pattern = parsePattern(text)
  if (pattern === undefined) issues.push({ path, message: `${quote(text)} is not a tool pattern; ${forms}` })
  return pattern
}

/** Versions are case-sensitive: `1.0.0-RC` and `1.0.0-rc` differ. */
function parsePattern(text: string): ToolPattern | undefined {
  if (text === '*') return { kind: 'all' }
  const [space = '', word = '', exact, ...more] = text.split(':', 4)
  if (namespaceFault(space) !== undefined || more.length > 0) return undefined
  const [namespace, name] = [space.toLowerCase(), word.toLowerCase()]
  if (exact === undefined && name.endsWith('*')) return parsePrefix(namespace, name.slice(0, -1))
  if (toolNameFault(name) !== undefined) return undefined
  const key = `${namespace}:${name}`
  if (exact === undefined) return { kind: 'tool', key }
  const version = parseVersion(exact)
  return version === undefined ? undefined : { kind: 'version', key, version }
}

function parsePrefix(namespace: string, prefix: string): ToolPattern | undefined {
  if (prefix === '') return { kind: 'namespace', namespace }
  return toolNameFault(prefix) === undefined ? { kind: 'prefix', namespace, prefix } : undefined
}

function matcherOf(patterns: readonly ToolPattern[]): ToolMatcher {
  const namespaces = new Set<string>()
  const prefixes = new Map<string, string[]>()
  const keys = new Set<string>()
  const versions = new Map<string, Version[]>()
  for (const pattern of patterns) {
    if (pattern.kind === 'all') return () => true
    if (pattern.kind === 'namespace') namespaces.add(pattern.namespace)
    else if (pattern.kind === 'prefix') push(prefixes, pattern.namespace, pattern.prefix)
    else if (pattern.kind === 'tool') keys.add(pattern.key)
    else push(versions, pattern.key, pattern.version)
  }
  const matches = (tool: NamedTool): boolean => {
    const namespace = tool.namespace.toLowerCase()
    if (namespaces.has(namespace)) return true
    const name = tool.name.toLowerCase()
    const key = `${namespace}:${name}`
    return (
      keys.has(key) ||
      (prefixes.get(namespace)?.some((prefix) => name.startsWith(prefix)) ?? false) ||
      isAmong(tool.version, versions.get(key))
    )
  }
  const named = [...keys, ...versions.keys()].map((key) => key.slice(0, key.indexOf(':')))
  return Object.assign(matches, { namespaces: new Set([...namespaces, ...prefixes.keys(), ...named]) })
}

/** Versions that differ only in build metadata are equal, as they are in a catalog. */
function isAmong(text: string, versions: readonly Version[] | undefined): boolean {
  if (versions === undefined) return false
  const version = parseVersion(text)
  return version !== undefined && versions.some((wanted) => compareVersions(wanted, version) === 0)
}

function push<T>(lists: Map<string, T[]>, key: string, value: T): void {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [value])
  else list.push(value)
}
