import { ToolError } from '@gantry/contract'
import type { Backend, BackendHost, Health } from '@gantry/core/internal/backends/backend'
import type { McpOptions } from './options.ts'
import { McpServer } from './server.ts'
import { readOptions } from './settings.ts'

/**
 * The tools of one server of the Model Context Protocol, in the revisions 2024-11-05 to 2026-07-28.
 * Throws CONFIG_INVALID. Connects when its tools are first asked for or called; `mcp/supervisor.ts` says when again.
 * - Concurrency: any number of calls at once over one connection.
 * - Cancellation: the server is told, and the call ends whether it listens or not.
 * - Errors: BACKEND_UNAVAILABLE for a call that was certainly not sent, BACKEND_FAILED for one that was.
 * - Ownership: it ends the program that it started, with its process group, when it is closed or the process exits. A
 *   program that leaves its group (`setsid`) stays; and when the host itself is killed, the program only sees its input
 *   close: most end then, and nobody can make the others.
 */
export function mcp(options: McpOptions): Backend {
  const settings = readOptions(options)
  let server: McpServer | undefined
  const attached = (): McpServer => {
    if (server !== undefined) return server
    throw new ToolError('CONFIG_INVALID', `The MCP backend ${settings.name} belongs to no executor yet.`)
  }
  return {
    kind: 'mcp',
    name: settings.name,
    pinned: true,
    tidy: true,
    attach(host: BackendHost) {
      server = new McpServer(settings, host)
    },
    discover: async (signal) => attached().discover(signal),
    call: (call, context) => attached().call(call, context),
    health: async (signal): Promise<Health> => attached().health(signal),
    close: async (signal) => server?.close(signal),
  }
}
