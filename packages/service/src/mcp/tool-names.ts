import { type Identity, ToolError } from '@gantry/contract'
import type { CatalogEntry } from '@gantry/core'
import type { ToolDirectory } from './host.ts'

/** Which tool a name means, for one caller. */
export interface ToolNames {
  /** The entry that a call under this name reaches. Throws TOOL_NOT_FOUND or TOOL_ID_INVALID. */
  find(name: string, identity: Identity): CatalogEntry
}

/** Names that cannot be read back are looked up in a table; so many tables are kept. */
const mostTables = 50
const pageSize = 1_000

/**
 * Reads names back as `nameOf` writes them: `namespace__name`, or readable words and a digest where that would not read
 * back one way only. An id is taken too, with a version or a range if need be, and within one namespace the bare name.
 */
export function createToolNames(
  directory: () => ToolDirectory,
  nameOf: (entry: CatalogEntry) => string,
  namespace?: string,
): ToolNames {
  const tables = new Map<string, ReadonlyMap<string, string>>()
  const tableOf = (executor: ToolDirectory, identity: Identity): ReadonlyMap<string, string> => {
    const hash = executor.hashFor(identity)
    const before = tables.get(hash)
    if (before !== undefined) return before
    const table = new Map<string, string>()
    for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
      const page = executor.tools({ identity, limit: pageSize, ...(cursor === undefined ? {} : { cursor }) })
      for (const entry of page.items) table.set(nameOf(entry), entry.key)
      cursor = page.cursor
    }
    if (tables.size >= mostTables) tables.clear()
    tables.set(hash, table)
    return table
  }
  return {
    find(name, identity) {
      const executor = directory()
      if (namespace !== undefined) return executor.find(`${namespace}:${name}`, { identity })
      if (name.includes(':')) return executor.find(name, { identity })
      const cut = name.indexOf('__')
      if (cut > 0) return executor.find(`${name.slice(0, cut)}:${name.slice(cut + 2)}`, { identity })
      const key = tableOf(executor, identity).get(name)
      if (key === undefined) throw new ToolError('TOOL_NOT_FOUND', 'No tool has this name.')
      return executor.find(key, { identity })
    },
  }
}
