import { createHash } from 'node:crypto'
import { ToolError } from '@gantry/contract'
import { unlessAborted } from '@gantry/core/internal/resilience/abort'

/** What a snapshot is asked for by. */
export interface SnapshotWish {
  /** Everything that two machines of one snapshot have in common; another key never gets it. */
  readonly key: readonly (string | number | boolean)[]
  /** The first frame of its init; none where the interpreter starts after the restore. */
  readonly ahead: Buffer | undefined
}

/** Takes snapshots when they are needed first, and keeps the ones that were used last. */
export interface KeptSnapshots<Wish extends SnapshotWish, Taken> {
  /** Rejects with SANDBOX_INIT_FAILED when none could be taken; the next request tries again. */
  get(wish: Wish, signal: AbortSignal): Promise<Taken>
  close(): Promise<void>
}

/** Each holds the memory of a started guest. */
const mostSnapshots = 8

/** `take` gets the signal of `close`; what it resolves with is closed when others have taken its place. */
export function keepSnapshots<Wish extends SnapshotWish, Taken extends { close(): Promise<void> }>(
  take: (wish: Wish, closing: AbortSignal) => Promise<Taken>,
): KeptSnapshots<Wish, Taken> {
  const closing = new AbortController()
  const kept = new Map<string, Promise<Taken>>()
  const remove = async (taking: Promise<Taken>): Promise<void> => {
    const snapshot = await taking.catch(() => undefined)
    await snapshot?.close()
  }
  return {
    async get(wish, signal) {
      closing.signal.throwIfAborted()
      const key = createHash('sha256')
        .update(JSON.stringify(wish.key))
        .update(wish.ahead ?? '')
        .digest('hex')
      const taking = kept.get(key) ?? take(wish, closing.signal)
      kept.delete(key)
      kept.set(key, taking)
      taking.catch(() => {
        if (kept.get(key) === taking) kept.delete(key)
      })
      const [oldest] = kept
      if (kept.size > mostSnapshots && oldest !== undefined) {
        kept.delete(oldest[0])
        void remove(oldest[1])
      }
      // Others may wait for the same one, which goes on when this request is given up.
      return unlessAborted(taking, signal)
    },
    async close() {
      closing.abort(new ToolError('RUNTIME_UNAVAILABLE', 'The runtime is closed.'))
      await Promise.all([...kept.values()].map(remove))
      kept.clear()
    },
  }
}
