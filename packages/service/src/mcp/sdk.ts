/** The parts of the MCP SDK that a server needs; loaded when there is one, because most commands have none. */
export type McpSdk = typeof import('@modelcontextprotocol/server')

export function loadSdk(): Promise<McpSdk> {
  return import('@modelcontextprotocol/server')
}
