import { ToolError } from '@gantry/contract'
import type { Health } from '@gantry/core/internal/backends/backend'
import type { Channel } from './channel.ts'
import { readParts } from './parts.ts'
import { isStatus } from './status.ts'

const method = 'grpc.health.v1.Health/Check'
const serving = 1

/** Asks the standard health service; a server without it is up when it can be reached. */
export async function checkHealth(
  channel: Channel,
  metadata: { readonly [name: string]: string },
  signal: AbortSignal,
): Promise<Health> {
  try {
    const message = Buffer.alloc(0)
    for await (const part of channel.call({ method, message, metadata, maxBytes: 1_024, signal })) {
      if (readParts(part).int(1) !== serving)
        return { status: 'down', message: 'The server says that it is not serving.' }
    }
    return { status: 'up' }
  } catch (error) {
    signal.throwIfAborted()
    if (isStatus(error, 'UNIMPLEMENTED')) return { status: 'up' }
    return { status: 'down', message: ToolError.is(error) ? error.message : 'The answer to a health check was wrong.' }
  }
}
