import type { Holder } from '../../storage/calls/call-store.ts'
import type { JournalRecords, JournalWrite } from '../../storage/journal.ts'
import { lost, patiently } from './inner-calls.ts'

/**
 * Writes entries of one journal in the order in which they come: none is durable before those that came earlier. What
 * comes while the store is busy is written together.
 * - Errors: a store that is away is waited for until the signal aborts. What else goes wrong is wrong for good: all that
 *   wait, and all that come later, reject with it, and `failed` is told; a fence that is no longer the present one is an
 *   error that `isLost` knows.
 */
export interface OrderedWriter {
  /** Takes an entry that need not be written before the next one. */
  hold(write: JournalWrite): void
  /** Resolves when the entry, and whatever came before, is durable. */
  add(write: JournalWrite): Promise<void>
  /** Resolves when everything is durable. */
  drained(): Promise<void>
  /** Entries that are not durable yet. */
  readonly waiting: number
}

/** Outcomes may have megabytes; a statement is ended by the one that takes it past this. */
const mostCharacters = 2_000_000
const mostEntries = 200

export function createOrderedWriter(
  {
    journal,
    holder,
    signal,
  }: { readonly journal: JournalRecords; readonly holder: Holder; readonly signal: AbortSignal },
  failed: (error: unknown) => void,
): OrderedWriter {
  let queue: JournalWrite[] = []
  let added = 0
  let durable = 0
  let working: Promise<void> | undefined
  let broken: { readonly error: unknown } | undefined

  const push = (write: JournalWrite): void => {
    queue.push(write)
    added += 1
  }
  const writeNext = async (): Promise<void> => {
    const taken = queue.slice(0, howMany(queue))
    queue = queue.slice(taken.length)
    try {
      if (!(await patiently(() => journal.writeAll(holder, taken), signal))) throw lost(holder.callId)
      durable += taken.length
    } catch (error) {
      broken = { error }
      failed(error)
    } finally {
      working = undefined
    }
  }
  const flush = async (): Promise<void> => {
    for (const upTo = added; durable < upTo; ) {
      if (broken !== undefined) throw broken.error
      // What comes in the same moment goes together.
      working ??= Promise.resolve().then(writeNext)
      await working
    }
  }
  return {
    hold: push,
    add(write) {
      push(write)
      return flush()
    },
    drained: flush,
    get waiting() {
      return added - durable
    },
  }
}

function howMany(queue: readonly JournalWrite[]): number {
  let characters = 0
  for (const [index, { result = '' }] of queue.slice(0, mostEntries).entries()) {
    characters += result.length
    if (characters > mostCharacters) return index + 1
  }
  return Math.min(queue.length, mostEntries)
}
