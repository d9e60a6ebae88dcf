import { mcp } from '@gantry/adapters'
import type { CatalogEntry } from '@gantry/core'

export type Revision = '2025-11-25' | '2026-07-28'

/** A tool as MCP describes it. */
export type McpTool = ReturnType<ReturnType<typeof mcp>['tools']>['tools'][number] & {
  readonly execution?: { readonly taskSupport: 'optional' }
}

export interface ToolWriter {
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
