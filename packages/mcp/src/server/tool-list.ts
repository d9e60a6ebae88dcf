import { mcp } from '@gantry/adapters'
import { type Identity, ToolError } from '@gantry/contract'
import type { CatalogEntry } from '@gantry/core'
import type { ToolDirectory } from './host.ts'

export type Revision = '2025-11-25' | '2026-07-28'

/** A tool as MCP describes it. */
export type McpTool = ReturnType<ReturnType<typeof mcp>['tools']>['tools'][number] & {
  readonly execution?: { readonly taskSupport: 'optional' }
}

interface ToolWriter {
  nameOf(entry: CatalogEntry): string
  write(entry: CatalogEntry, revision: Revision): McpTool
}

/**
 * Writes tools once for each revision and keeps what it wrote as long as the entry is there. Within one namespace they
 * go by their bare names. `tasks`: calls of them may be asked for as tasks, which 2025-11-25 wants to be told.
 */
export function createToolWriter(how: { readonly namespace?: string; readonly tasks: boolean }): ToolWriter {
  const adapters = { '2025-11-25': mcp({ revision: '2025-11-25' }), '2026-07-28': mcp({ revision: '2026-07-28' }) }
  const written = { '2025-11-25': new WeakMap<CatalogEntry, McpTool>(), '2026-07-28': new WeakMap() }
  const make = (entry: CatalogEntry, revision: Revision): McpTool => {
    const [plain] = adapters[revision].tools([entry]).tools
    if (plain === undefined) throw new Error('The adapter lost a tool.')
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
 * Takes out the marks by which a foreign tool has arguments repeated in the headers of HTTP: those are between its server
 * and us, and clients of ours would send headers that nobody here compares.
 */
function unmark(node: { [key: string]: unknown }): void {
  delete node['x-mcp-header']
  for (const member of Object.values((node.properties ?? {}) as { readonly [name: string]: unknown })) {
    if (typeof member === 'object' && member !== null) unmark(member as { [key: string]: unknown })
  }
}

/** Which tool a name means, for one caller. */
interface ToolNames {
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
