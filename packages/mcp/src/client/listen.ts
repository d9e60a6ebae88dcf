import { pause } from '@gantry/core/internal/resilience/retry'
import type { McpSubscription } from '@modelcontextprotocol/client'
import type { Connection } from './connection.ts'

const shortestGapMs = 1_000
const longestGapMs = 60_000

/**
 * Since 2026-07-28 changes are told on a stream that the client opens. The SDK opens the first with the connection;
 * this opens the next when one ends by itself, and says that something may have been missed. Never rejects.
 */
export async function keepListening(connection: Connection, missed: () => void, life: AbortSignal): Promise<void> {
  const { client } = connection
  let open: McpSubscription | undefined = client.autoOpenedSubscription
  let gapMs = shortestGapMs
  if (open === undefined) return
  while (connection.ended() === undefined && !life.aborted) {
    if (open !== undefined && (await open.closed) === 'local') return
    try {
      await pause(gapMs, life)
      open = await client.listen({ toolsListChanged: true }, { signal: life })
      gapMs = shortestGapMs
      missed()
    } catch {
      open = undefined
      gapMs = Math.min(longestGapMs, gapMs * 2)
    }
  }
}
