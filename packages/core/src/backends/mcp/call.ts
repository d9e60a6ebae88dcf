import type { BackendCall, BackendContext } from '../backend.ts'
import type { Connection } from './connection.ts'

/** The SDK ends every request after a time; the pipeline's own deadline must come first. */
const longestMs = 2_147_483_647

/**
 * Sends one call and gives the server's result as it is. Progress is always asked for. The idempotency key goes along
 * as `_meta["gantry/idempotencyKey"]`, for servers that keep such keys. Rejects with what the SDK throws.
 */
export async function sendCall(
  { client, incoming }: Connection,
  name: string,
  { tool, args }: BackendCall,
  context: BackendContext,
): Promise<unknown> {
  const stop = new AbortController()
  // The server is told that it was cancelled, not by whom or why.
  const onAbort = (): void => stop.abort('The call was cancelled.')
  context.signal.throwIfAborted()
  const progressToken = incoming.nextToken()
  const deaf = incoming.watch(progressToken, (report) => context.progress(report))
  context.signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await client.callTool(
      { name, arguments: args, _meta: { progressToken, 'gantry/idempotencyKey': context.idempotencyKey } },
      {
        signal: stop.signal,
        timeout: longestMs,
        // Without an output schema, because the pipeline checks outputs; with the input's, for its header marks.
        toolDefinition: { name, inputSchema: tool.inputSchema as { readonly type: 'object' } },
      },
    )
  } finally {
    deaf()
    context.signal.removeEventListener('abort', onAbort)
  }
}
