import type { ProgressReport } from '@gantry/core/internal/backends/backend'
import type { JSONRPCMessage } from '@modelcontextprotocol/client'

/** Sees every message before the SDK does. */
export interface Incoming {
  see(message: JSONRPCMessage): void
  /** A token that no other call over this connection has. */
  nextToken(): string
  /** Hears the progress under this token until it lets go. */
  watch(token: string, listener: (report: ProgressReport) => void): () => void
}

/**
 * Two things that the SDK does not do well. It hands progress on a moment later, so that the last report is lost when
 * the result comes right behind it. And since 2026-07-28 it refuses a result that does not say that it is complete,
 * though clients must take it for that; `legacy` says that the server is of the time before, where nobody asks.
 */
export function createIncoming(legacy: () => boolean): Incoming {
  const listeners = new Map<string, (report: ProgressReport) => void>()
  let count = 0
  return {
    nextToken: () => `progress-${++count}`,
    see(message) {
      if ('result' in message && !legacy() && isUnmarked(message.result)) message.result.resultType = 'complete'
      if (!('method' in message) || message.method !== 'notifications/progress') return
      const { progressToken, progress, total, message: text } = message.params ?? {}
      const listener = typeof progressToken === 'string' ? listeners.get(progressToken) : undefined
      if (listener === undefined || typeof progress !== 'number') return
      listener({
        progress,
        ...(typeof total === 'number' ? { total } : {}),
        ...(typeof text === 'string' ? { message: text } : {}),
      })
    },
    watch(token, listener) {
      listeners.set(token, listener)
      return () => void listeners.delete(token)
    },
  }
}

function isUnmarked(result: unknown): boolean {
  return typeof result === 'object' && result !== null && !('resultType' in result)
}
