import type { Bus } from '../stores/bus.ts'

/** Asks whether the database answers, and tells of each change, for processes that would else not notice. */
export function createPulse(ask: () => Promise<unknown>, bus: Bus, now: () => number = Date.now): () => Promise<void> {
  let downSince: number | undefined
  return async () => {
    try {
      await ask()
      if (downSince !== undefined) bus.emit('store:up', { downMs: now() - downSince })
      downSince = undefined
    } catch (error) {
      if (downSince !== undefined) return
      downSince = now()
      bus.emit('store:down', { reason: error instanceof Error ? error.message : String(error) })
    }
  }
}
