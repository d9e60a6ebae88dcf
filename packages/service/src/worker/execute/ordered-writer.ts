import type { InnerOutcome } from '@gantry/core'
import type { Holder } from '../../storage/calls/call-store.ts'
import type { JournalRecords, JournalWrite } from '../../storage/journal.ts'
import { lost, patiently } from './inner-calls.ts'
import { textOf } from './program-calls.ts'

/**
 * Writes entries of one journal in order: none is durable before the earlier ones. Entries that arrive while the store
 * is busy are written together.
 * - Errors: while the store is unavailable it waits until the signal aborts. Any other failure is final: all waiting
 *   and later entries reject with it, and `failed` is called; an outdated fence is an error that `isLost` recognises.
 */
export interface OrderedWriter {
  /** Adds an entry that may be written with the next one. */
  hold(write: JournalWrite): void
  /** Resolves when the entry, and all earlier ones, are durable. */
  add(write: JournalWrite): Promise<void>
  /** Resolves when everything is durable. */
  drained(): Promise<void>
  /** The number of entries that are not durable yet. */
  readonly waiting: number
}

/** Outcomes may have megabytes; the entry that exceeds this ends its statement. */
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
      // Entries of the same turn of the event loop share a statement.
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

export interface JournaledOutcome {
  readonly outcome: InnerOutcome
  readonly atMs: number
}

/** Orders the outcomes of a program's gateway requests: every later attempt delivers them in the same order. */
interface OutcomeSequencer {
  /**
   * Numbers and writes an outcome at once. Resolves when it may be delivered: after those with lower numbers, and only
   * when it is durable, unless it may be delivered early.
   */
  add(entry: string, outcome: InnerOutcome, early: boolean): Promise<JournaledOutcome>
}

/** The most entries that are delivered and not yet durable; a program that reads faster waits for the store. */
const mostAhead = 100

export function createOutcomeSequencer(
  writer: OrderedWriter,
  { nextSeq, lastMs, now }: { readonly nextSeq: number; readonly lastMs: number; readonly now: () => number },
): OutcomeSequencer {
  let seq = nextSeq
  let time = lastMs
  let line: { ready: boolean; readonly deliver: () => void }[] = []

  const advance = (): void => {
    const waiting = line.findIndex(({ ready }) => !ready)
    const next = waiting < 0 ? line : line.slice(0, waiting)
    line = line.slice(next.length)
    for (const { deliver } of next) deliver()
  }
  return {
    add(entry, outcome, early) {
      time = Math.max(time, now())
      const journaled = { outcome, atMs: time }
      const delivered = Promise.withResolvers<JournaledOutcome>()
      const place = { ready: early && writer.waiting < mostAhead, deliver: () => delivered.resolve(journaled) }
      line.push(place)
      writer.add({ entry, result: textOf({ seq, atMs: time, outcome }) }).then(() => {
        place.ready = true
        advance()
      }, delivered.reject)
      seq += 1
      advance()
      return delivered.promise
    },
  }
}
