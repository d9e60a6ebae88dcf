import type { BackendCall, BackendContext } from '@gantry/core/internal/backends/backend'
import type { Connection } from './connection.ts'
import type { Logs } from './logs.ts'

/** The SDK ends every request after a time; the pipeline's own deadline must come first. */
const longestMs = 2_147_483_647

/**
 * Sends one call and gives the server's result as it is. Progress is always asked for. The idempotency key goes along
 * as `_meta["gantry/idempotencyKey"]`, for servers that keep such keys, and the place in a trace as
 * `_meta.traceparent`. Rejects with what the SDK throws.
 */
export async function sendCall(
  { client, modern, callResult, incoming }: Connection,
  logs: Logs,
  name: string,
  { tool, args }: BackendCall,
  context: BackendContext,
): Promise<unknown> {
  const { signal } = context
  const stop = new AbortController()
  // The server is told that it was cancelled, not by whom or why.
  const onAbort = (): void => stop.abort('The call was cancelled.')
  signal.throwIfAborted()
  const progressToken = incoming.nextToken()
  const deaf = incoming.watch(progressToken, (report) => context.progress(report))
  const { traceparent } = context
  const place = traceparent === undefined ? {} : { traceparent }
  const _meta = { progressToken, 'gantry/idempotencyKey': context.idempotencyKey, ...place }
  const params = { name, arguments: args, _meta }
  const options = { signal: stop.signal, timeout: longestMs }
  logs.begin(context)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    if (!modern) return await client.request({ method: 'tools/call', params }, callResult, options)
    // Without an output schema, because the pipeline checks outputs; with the input's, for its header marks.
    const toolDefinition = { name, inputSchema: tool.inputSchema as { readonly type: 'object' } }
    return await client.callTool(params, { ...options, toolDefinition })
  } finally {
    deaf()
    logs.end(context)
    signal.removeEventListener('abort', onAbort)
  }
}
