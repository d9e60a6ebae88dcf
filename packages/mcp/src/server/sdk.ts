import { ToolError } from '@gantry/contract'

/** The parts of the MCP SDK that a server needs; loaded when there is one, because most commands have none. */
export type McpSdk = typeof import('@modelcontextprotocol/server')

export function loadSdk(): Promise<McpSdk> {
  return import('@modelcontextprotocol/server')
}

/** Turns a ToolError into an error of JSON-RPC; any other error becomes an internal error without its message. */
export async function withProtocolErrors<T>(sdk: McpSdk, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (thrown) {
    if (!ToolError.is(thrown)) throw new sdk.ProtocolError(-32603, 'Internal error')
    const { code, message } = thrown
    throw new sdk.ProtocolError(-32602, message, { code })
  }
}
