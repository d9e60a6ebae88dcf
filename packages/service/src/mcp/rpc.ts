import { type Answer, json } from '../http/answer.ts'

/** A JSON-RPC error as the answer to a request of which no id is known, or this one. */
export function rpcError(status: number, code: number, message: string, id: string | number | null = null): Answer {
  return json({ jsonrpc: '2.0', error: { code, message }, id }, status)
}
