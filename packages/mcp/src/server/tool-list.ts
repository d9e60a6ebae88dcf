import { mcp } from '@gantry/adapters'
import { type Identity, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { CatalogEntry } from '@gantry/core'
import type { ToolDirectory } from './host.ts'

export type Revision = '2025-11-25' | '2026-07-28'

/** A tool in the format of MCP. */
export type McpTool = ReturnType<ReturnType<typeof mcp>['tools']>['tools'][number] & {
  readonly execution?: { readonly taskSupport: 'optional' }
}

interface ToolWriter {
  nameOf(entry: CatalogEntry): string
  write(entry: CatalogEntry, revision: Revision): McpTool
}

/**
 * Serializes tools once per revision and caches the text as long as the entry exists. Within one namespace tools have
 * their bare names. `tasks`: calls may become tasks, which 2025-11-25 lists with each tool.
 */
export function createToolWriter(how: { readonly namespace?: string; readonly tasks: boolean }): ToolWriter {
  const adapters = { '2025-11-25': mcp({ revision: '2025-11-25' }), '2026-07-28': mcp({ revision: '2026-07-28' }) }
  const written = { '2025-11-25': new WeakMap<CatalogEntry, McpTool>(), '2026-07-28': new WeakMap() }
  const make = (entry: CatalogEntry, revision: Revision): McpTool => {
    const [plain] = adapters[revision].tools([entry]).tools
    if (plain === undefined) throw new Error('The adapter returned no tool for a catalog entry.')
    unmark(plain.inputSchema)
    const { annotations } = plain
    const hints = entry.tool.effect === 'read' ? { readOnlyHint: true, ...annotations } : annotations
    return {
      ...plain,
      ...(how.namespace === undefined ? {} : { name: entry.tool.name }),
      ...(hints === undefined ? {} : { annotations: hints }),
      ...(how.tasks && revision === '2025-11-25' ? { execution: { taskSupport: 'optional' as const } } : {}),
    }
  }
  const write = (entry: CatalogEntry, revision: Revision): McpTool => {
    const before = written[revision].get(entry)
    if (before !== undefined) return before
    const tool = make(entry, revision)
    written[revision].set(entry, tool)
    return tool
  }
  return { write, nameOf: (entry) => write(entry, '2026-07-28').name }
}

/**
 * Removes the `x-mcp-header` marks of a foreign tool. They are for its own server; clients of this server would send
 * headers that it does not compare.
 */
function unmark(node: unknown): void {
  if (!isObject(node)) return
  Reflect.deleteProperty(node, 'x-mcp-header')
  if (isObject(node.properties)) for (const member of Object.values(node.properties)) unmark(member)
}

/** Resolves tool names for one caller. */
interface ToolNames {
  /** The entry that a call under this name reaches. Throws TOOL_NOT_FOUND or TOOL_ID_INVALID. */
  find(name: string, identity: Identity): CatalogEntry
}

/** The number of cached tables for names that cannot be parsed back to an id. */
const mostTables = 50
const pageSize = 1_000

/**
 * Resolves names as `nameOf` writes them: `namespace__name`, or readable words and a digest where that is ambiguous. It
 * also accepts an id, optionally with a version or a range, and within one namespace the bare name.
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
