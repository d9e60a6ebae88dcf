import { type Issue, ToolError } from '@gantry/contract'
import { normalTag, readTexts, textList } from '../ids/text-list.ts'
import { namespaceFault } from '../ids/tool-id.ts'
import { toolMatcher } from '../ids/tool-pattern.ts'
import { isObject } from '../json/kinds.ts'
import { queryDigest, unknownKeys } from '../search/index.ts'
import type { CatalogEntry, EntryFilter } from './catalog.ts'
import { inputFault } from './tool-fields.ts'

/**
 * One test out of all that a query filters by; the caller's permission comes last because it may cost most.
 * A filter that is not understood is INPUT_INVALID, because it would not narrow the answer.
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

/** Ties a cursor to the query and to the filters that can be written down; a permission cannot. */
export function filterDigest(query: unknown, { namespace, tag, toolset }: EntryFilter): string {
  return queryDigest({ query, namespace, tag, toolset })
}

/** The page size asked for, or INPUT_INVALID. */
export function pageLimit(limit: number | undefined, usual: number, most: number): number {
  if (limit === undefined) return usual
  if (Number.isInteger(limit) && limit >= 1 && limit <= most) return limit
  throw wrong('limit', `must be a whole number from 1 to ${most}`)
}

/** The query without the space around it, or INPUT_INVALID. */
export function queryText(query: string): string {
  if (typeof query !== 'string') throw wrong('query', 'must be a string')
  return query.trim()
}

function wrong(option: string, message: string): ToolError {
  const issues = [{ path: `/${option}`, message }]
  return new ToolError('INPUT_INVALID', `The ${option} ${message}.`, { details: { issues } })
}

/** A named part of the catalog: each part that is given narrows it, and `deny` wins over all of them. */
export interface Toolset {
  readonly namespaces?: readonly string[] | undefined
  /** An entry needs one of them. */
  readonly tags?: readonly string[] | undefined
  /** Patterns as in a policy's rules: `*`, `ns:*`, `ns:prefix*`, `ns:name` or `ns:name:1.0.0`. */
  readonly allow?: readonly string[] | undefined
  readonly deny?: readonly string[] | undefined
}

type EntryTest = (entry: CatalogEntry) => boolean

/** How each part is read; each gives the test that an entry must pass. */
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
 * Turns a toolset into a test that costs a few set look-ups an entry.
 * One that is not understood whole is INPUT_INVALID, because it would show more than its author meant.
 */
export function toolsetFilter(toolset: Toolset): EntryTest {
  const path = '/toolset'
  if (!isObject(toolset))
    throw inputFault('toolset', [{ path, message: 'must be an object such as { allow: ["ns:*"] }' }])
  const issues = [...unknownKeys(toolset, Object.keys(parts), path, 'is not part of a toolset')]
  const said: { readonly [part: string]: unknown } = toolset
  const tests = Object.entries(parts).flatMap(([part, read]) =>
    said[part] === undefined ? [] : [read(said[part], `${path}/${part}`, issues)],
  )
  if (issues.length > 0) throw inputFault('toolset', issues)
  return (entry) => tests.every((passes) => passes(entry))
}

/** Namespaces that differ only in case cannot stand beside each other, so case does not matter here either. */
function readNamespace(text: string, path: string, issues: Issue[]): string | undefined {
  const fault = namespaceFault(text)
  if (fault === undefined) return text.toLowerCase()
  issues.push({ path, message: `is no namespace: it ${fault}` })
  return undefined
}
