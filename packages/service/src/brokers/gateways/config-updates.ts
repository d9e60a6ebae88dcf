import { setTimeout } from 'node:timers/promises'
import type { RedisConnections } from '../transports/redis/connection.ts'

export interface UpdateOptions {
  /** `sys:config:updated` when absent. */
  readonly channel?: string
  /** Hears of a reload that failed, and of a channel that cannot be listened to; both are tried again. */
  readonly failed: (error: unknown) => void
  /** The least time from one reload, or one try to listen, to the next; 1,000 when absent. */
  readonly pauseMs?: number
}

/**
 * Reloads when gateways say that the configuration changed. What a message holds is not looked at, and however many
 * come, one reload runs at a time and one more follows it. What was said while nobody listened is not heard, so that
 * coming back counts as a change; the file itself is looked at by `watchConfig` besides.
 * Answers the function that stops it, which waits for a reload that runs.
 */
export function listenConfigUpdates(
  redis: Pick<RedisConnections, 'subscribe'>,
  reload: () => Promise<void>,
  { channel = 'sys:config:updated', failed, pauseMs = 1_000 }: UpdateOptions,
): () => Promise<void> {
  const life = new AbortController()
  const rest = (): Promise<void> => setTimeout(pauseMs, undefined, life).catch(() => undefined)
  let running: Promise<void> | undefined
  let again = false

  const run = async (): Promise<void> => {
    while (again && !life.signal.aborted) {
      again = false
      await reload().catch(failed)
      await rest()
    }
    running = undefined
  }
  const changed = (): void => {
    again = true
    running ??= run()
  }
  const listen = async (): Promise<(() => Promise<void>) | undefined> => {
    for (let missed = false; !life.signal.aborted; missed = true) {
      try {
        const stop = await redis.subscribe(channel, changed)
        if (missed) changed()
        return stop
      } catch (error) {
        failed(error)
        await rest()
      }
    }
    return undefined
  }
  const listening = listen()
  return async () => {
    life.abort()
    const stop = await listening
    await stop?.()
    await running
  }
}
