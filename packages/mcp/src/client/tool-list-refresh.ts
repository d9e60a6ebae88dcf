import { pause } from '@gantry/core/internal/resilience/retry'
import type { McpSubscription } from '@modelcontextprotocol/client'
import type { Connection } from './connection.ts'

const shortestGapMs = 1_000
const longestGapMs = 60_000

/** Turns any number of requests into refreshes with a minimum gap. */
interface Refresher {
  request(): void
  stop(): void
}

/**
 * Runs `refresh` at once for the first request, and for later ones no sooner than a second after the last. `refresh` says
 * whether anything had changed: for a server that announces changes and shows none, the gap doubles up to a minute.
 * It must not reject.
 */
export function createRefresher(refresh: () => Promise<boolean>): Refresher {
  let gapMs = shortestGapMs
  let next = 0
  let running = false
  let requested = false
  let timer: NodeJS.Timeout | undefined
  let stopped = false

  const run = async (): Promise<void> => {
    timer = undefined
    running = true
    requested = false
    const changed = await refresh()
    gapMs = changed ? shortestGapMs : Math.min(longestGapMs, gapMs * 2)
    next = Date.now() + gapMs
    running = false
    if (requested) schedule()
  }
  const schedule = (): void => {
    if (stopped || timer !== undefined) return
    timer = setTimeout(() => void run(), Math.max(0, next - Date.now()))
    timer.unref()
  }
  return {
    request() {
      if (running) requested = true
      else schedule()
    },
    stop() {
      stopped = true
      clearTimeout(timer)
    },
  }
}

/**
 * Since 2026-07-28 changes are announced on a stream that the client opens. The SDK opens the first with the connection;
 * this opens the next when one ends by itself, and says that something may have been missed. Never rejects.
 */
export async function keepSubscribed(connection: Connection, missed: () => void, life: AbortSignal): Promise<void> {
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
