import { onAbort } from '@gantry/core/internal/resilience/abort'

/** The last states of objects by their names, as a watch of the API reports them. */
export interface ObjectWatch<T> {
  /** For the callback of a watch. */
  report(value: T, isDeleted: boolean): void
  /** Resolves with the object when `isDone` is true of it; undefined is one that was deleted. */
  until(name: string, isDone: (value: T | undefined) => boolean, signal: AbortSignal): Promise<T | undefined>
  /** The last state; undefined also for an object of which nothing was reported. */
  last(name: string): T | undefined
  forget(name: string): void
}

interface Named {
  readonly metadata?: { readonly name?: string }
}

/** Deleted objects are remembered for those that begin to wait later, and no more than these. */
const mostDeleted = 1_000

export function createObjectWatch<T extends Named>(): ObjectWatch<T> {
  const last = new Map<string, T>()
  const deleted = new Set<string>()
  const waiting = new Map<string, Set<() => void>>()
  const noteDeleted = (name: string): void => {
    last.delete(name)
    deleted.add(name)
    const [oldest] = deleted
    if (deleted.size > mostDeleted && oldest !== undefined) deleted.delete(oldest)
  }
  return {
    report(value, isDeleted) {
      const name = value.metadata?.name ?? ''
      if (isDeleted) noteDeleted(name)
      else last.set(name, value)
      for (const wake of waiting.get(name) ?? []) wake()
    },
    async until(name, isDone, given) {
      for (;;) {
        given.throwIfAborted()
        const value = last.get(name)
        if ((value !== undefined || deleted.has(name)) && isDone(value)) return value
        const changed = Promise.withResolvers<void>()
        const all = waiting.get(name) ?? new Set()
        waiting.set(name, all.add(changed.resolve))
        const leave = onAbort(given, changed.resolve)
        await changed.promise
        leave()
        all.delete(changed.resolve)
        if (all.size === 0) waiting.delete(name)
      }
    },
    last: (name) => last.get(name),
    forget(name) {
      last.delete(name)
      deleted.delete(name)
    },
  }
}
