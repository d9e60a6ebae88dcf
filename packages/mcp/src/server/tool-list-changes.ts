import type { Identity } from '@gantry/contract'
import type { Surface } from './surface.ts'

/**
 * Notifies subscribers when the tools that they may see have changed, so that no subscriber learns of hidden tools. It
 * polls, because tools change with backends, configuration and policy.
 */
export interface ToolListChanges {
  /** Returns the function that ends it. */
  subscribe(identity: Identity, changed: () => void): () => void
  close(): void
}

const everyMs = 1_000

export function createToolListChanges(
  { hashFor, state }: Pick<Surface, 'hashFor' | 'state'>,
  lookMs: number = everyMs,
): ToolListChanges {
  const subscribers = new Set<{ readonly identity: Identity; readonly changed: () => void; hash: string }>()
  let timer: NodeJS.Timeout | undefined
  let before: readonly unknown[] = []
  const look = (): void => {
    const now = state()
    if (now.length === before.length && now.every((one, at) => one === before[at])) return
    before = now
    for (const one of subscribers) {
      const hash = hashFor(one.identity)
      if (hash === one.hash) continue
      one.hash = hash
      one.changed()
    }
  }
  return {
    subscribe(identity, changed) {
      const one = { identity, changed, hash: hashFor(identity) }
      subscribers.add(one)
      timer ??= setInterval(look, lookMs).unref()
      return () => {
        subscribers.delete(one)
        if (subscribers.size > 0) return
        clearInterval(timer)
        timer = undefined
      }
    },
    close() {
      clearInterval(timer)
      subscribers.clear()
    },
  }
}
