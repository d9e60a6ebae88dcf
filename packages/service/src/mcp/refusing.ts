import { ToolError } from '@gantry/contract'
import type { McpSdk } from './sdk.ts'

/** Tells a refusal in the words of JSON-RPC; what is no refusal of ours is not told. */
export async function refusing<T>(sdk: McpSdk, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (thrown) {
    if (!ToolError.is(thrown)) throw new sdk.ProtocolError(-32603, 'Internal error')
    const { code, message } = thrown
    throw new sdk.ProtocolError(-32602, message, { code })
  }
}
