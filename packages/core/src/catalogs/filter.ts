import { type Issue, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { normalTag, readTexts, textList } from '../ids/text-list.ts'
import { namespaceFault } from '../ids/tool-id.ts'
import { toolMatcher } from '../ids/tool-pattern.ts'
import { unknownMembers } from '../options/options.ts'
import { maxQuery, queryDigest } from '../search/index.ts'
import type { CatalogEntry, EntryFilter } from './catalog.ts'
import { inputFault } from './tool-check.ts'

/**
 * Compiles all filters of a query into one test; the permission check comes last because it may cost most.
 * An invalid filter is INPUT_INVALID, because ignoring it would widen the result.
 */
export function entryFilter(filter: EntryFilter): (entry: CatalogEntry) => boolean {
  const { namespace, allow } = filter
  for (const option of ['namespace', 'tag'] as const) {
    if (!['string', 'undefined'].includes(typeof filter[option])) throw wrong(option, 'must be a string')
  }
  const tag = filter.tag === undefined ? undefined : normalTag(filter.tag)
  const inToolset = filter.toolset === undefined ? undefined : toolsetFilter(filter.toolset)
  return (entry) =>
    (namespace === undefined || entry.tool.namespace === namespace) &&
    (tag === undefined || (entry.tool.tags?.includes(tag) ?? false)) &&
    (inToolset === undefined || inToolset(entry)) &&
    (allow === undefined || allow(entry))
}

/** Binds a cursor to the query and the serializable filters; a permission check is a function. */
export function filterDigest(query: unknown, { namespace, tag, toolset }: EntryFilter): string {
  return queryDigest({ query, namespace, tag, toolset })
}

/** The page size; throws INPUT_INVALID. */
export function pageLimit(limit: number | undefined, usual: number, most: number): number {
  if (limit === undefined) return usual
  if (Number.isInteger(limit) && limit >= 1 && limit <= most) return limit
  throw wrong('limit', `must be a whole number from 1 to ${most}`)
}

/** The trimmed query; throws INPUT_INVALID. */
export function queryText(query: string): string {
  if (typeof query !== 'string') throw wrong('query', 'must be a string')
  if (query.length > maxQuery) throw wrong('query', `must have at most ${maxQuery} characters`)
  return query.trim()
}

function wrong(option: string, message: string): ToolError {
  const issues = [{ path: `/${option}`, message }]
  return new ToolError('INPUT_INVALID', `The ${option} ${message}.`, { details: { issues } })
}

/** A subset of the catalog: each member narrows it, and `deny` wins over all others. */
export interface Toolset {
  readonly namespaces?: readonly string[] | undefined
  /** An entry needs at least one of them. */
  readonly tags?: readonly string[] | undefined
  /** Patterns as in a policy's rules: `*`, `ns:*`, `ns:prefix*`, `ns:name` or `ns:name:1.0.0`. */
  readonly allow?: readonly string[] | undefined
  readonly deny?: readonly string[] | undefined
}

type EntryTest = (entry: CatalogEntry) => boolean

/** The compiler of each member: returns the test that an entry must pass. */
const parts: {
  readonly [Part in keyof Required<Toolset>]: (value: unknown, path: string, issues: Issue[]) => EntryTest
} = {
  namespaces(value, path, issues) {
    const form = 'name at least one namespace, or leave it out'
    const namespaces = new Set(readTexts(value, path, issues, form, readNamespace))
    return ({ tool }) => namespaces.has(tool.namespace.toLowerCase())
  },
  tags(value, path, issues) {
    const tags = new Set(textList(value, path, issues).map(normalTag))
    return ({ tool }) => tool.tags?.some((tag) => tags.has(tag)) ?? false
  },
  allow(value, path, issues) {
    const matches = toolMatcher(value, path, issues)
    return ({ tool }) => matches(tool)
  },
  deny(value, path, issues) {
    const matches = toolMatcher(value, path, issues)
    return ({ tool }) => !matches(tool)
  },
}

/**
 * Compiles a toolset into a test that costs a few set look-ups per entry.
 * An invalid toolset is INPUT_INVALID, because ignoring a part would show more than its author intended.
 */
export function toolsetFilter(toolset: Toolset): EntryTest {
  const path = '/toolset'
  if (!isObject(toolset))
    throw inputFault('toolset', [{ path, message: 'must be an object such as { allow: ["ns:*"] }' }])
  const issues = [...unknownMembers(toolset, Object.keys(parts), path, 'part of a toolset')]
  const said: { readonly [part: string]: unknown } = toolset
  const tests = Object.entries(parts).flatMap(([part, read]) =>
    said[part] === undefined ? [] : [read(said[part], `${path}/${part}`, issues)],
  )
  if (issues.length > 0) throw inputFault('toolset', issues)
  return (entry) => tests.every((passes) => passes(entry))
}

/** Namespaces are case-insensitive: a catalog has no two that differ only in case. */
function readNamespace(text: string, path: string, issues: Issue[]): string | undefined {
  const fault = namespaceFault(text)
  if (fault === undefined) return text.toLowerCase()
  issues.push({ path, message: `is not a namespace: it ${fault}` })
  return undefined
}
