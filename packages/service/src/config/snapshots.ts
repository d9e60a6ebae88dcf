import type { Executor } from '@gantry/core'

/** One state of the configuration: a call sees one from its start to its end. */
export interface Snapshot {
  readonly executor: Executor
  /** Names it in the audit. */
  readonly version: string
}

/**
 * The present configuration, and earlier ones as long as calls run under them.
 * - Ownership: executors are closed here, each once its last call has ended.
 */
export interface Snapshots {
  /** Throws before the first `replace` when it was created without one. */
  readonly current: Snapshot
  use<T>(work: (snapshot: Snapshot) => Promise<T>): Promise<T>
  /** Later calls see the next one; those that run keep theirs. */
  replace(next: Snapshot): void
  /** Calls the listener after every `replace`; answers the function that ends this. */
  onReplace(listener: () => void): () => void
  close(): Promise<void>
}

/** Created without a first snapshot by a composition root whose parts need each other before there is an executor. */
export function createSnapshots(first?: Snapshot): Snapshots {
  const users = new Map<Snapshot, number>(first === undefined ? [] : [[first, 0]])
  const closing = new Set<Promise<void>>()
  const listeners = new Set<() => void>()
  let present = first

  const current = (): Snapshot => {
    if (present === undefined) throw new Error('No configuration has been loaded.')
    return present
  }
  const closeUnused = (snapshot: Snapshot): void => {
    if (snapshot === present || users.get(snapshot) !== 0) return
    users.delete(snapshot)
    const done = snapshot.executor.close().finally(() => closing.delete(done))
    closing.add(done)
  }
  return {
    get current() {
      return current()
    },
    async use(work) {
      const snapshot = current()
      users.set(snapshot, (users.get(snapshot) ?? 0) + 1)
      try {
        return await work(snapshot)
      } finally {
        users.set(snapshot, (users.get(snapshot) ?? 1) - 1)
        closeUnused(snapshot)
      }
    },
    replace(next) {
      const before = present
      present = next
      users.set(next, 0)
      if (before !== undefined) closeUnused(before)
      for (const listener of listeners) listener()
    },
    onReplace(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    async close() {
      await Promise.all([...users.keys()].map(({ executor }) => executor.close()))
      await Promise.all(closing)
    },
  }
}
