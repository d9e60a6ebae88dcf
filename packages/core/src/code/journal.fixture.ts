import type {
  InnerNames,
  InnerOutcome,
  InnerRequest,
  JournaledOutcome,
  ProgramJournal,
} from '../backends/program-journal.ts'

/** A journal in memory, with the state that tests check. */
export interface MemoryJournal extends ProgramJournal {
  /** Every outcome in the journal, those of earlier attempts included, in order. */
  readonly entries: readonly JournaledOutcome[]
  /** Numbers of the requests performed in this attempt, in starting order. */
  readonly made: readonly number[]
  /** The requests of this attempt that the journal did not have. */
  readonly asks: readonly InnerRequest[]
  /** The number of delivered outcomes each time the program was quiescent in this attempt. */
  readonly rested: readonly number[]
}

export interface MemoryJournalOptions {
  readonly journaled?: readonly JournaledOutcome[]
  readonly seed?: number
  readonly startedMs?: number
  readonly resumed?: boolean
  /** Wraps each performed request; a rejection ends the attempt. */
  readonly around?: (ask: InnerRequest, make: (names?: InnerNames) => Promise<InnerOutcome>) => Promise<InnerOutcome>
}

/** A clock that advances by a second with each entry, so that tests do not depend on the time of day. */
export function memoryJournal({
  journaled = [],
  seed = 7,
  startedMs = 1_000_000,
  resumed = journaled.length > 0,
  around = (_ask, make) => make(),
}: MemoryJournalOptions = {}): MemoryJournal {
  const entries = [...journaled]
  const made: number[] = []
  const asks: InnerRequest[] = []
  const rested: number[] = []
  return {
    seed,
    startedMs,
    outcomes: journaled,
    resumed,
    onQuiescent: (count) => void rested.push(count),
    rested,
    entries,
    made,
    asks,
    async settle(ask, make) {
      asks.push(ask)
      const outcome = await around(ask, (names) => {
        made.push(ask.number)
        return make(names)
      })
      const atMs = startedMs + (entries.length + 1) * 1_000
      entries.push({ number: ask.number, fingerprint: ask.fingerprint, outcome: kept(outcome), atMs })
      return { outcome, atMs }
    },
  }
}

/** A copy through JSON, like an entry from a table. */
function kept(outcome: InnerOutcome): InnerOutcome {
  return JSON.parse(JSON.stringify(outcome)) as InnerOutcome
}
