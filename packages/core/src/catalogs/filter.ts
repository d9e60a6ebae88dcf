import { ToolError } from '@gantry/contract'
import { normalTag } from '../ids/tag.ts'
import { queryDigest } from '../search/index.ts'
import type { CatalogEntry, EntryFilter } from './catalog.ts'
import { toolsetFilter } from './toolset.ts'

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
