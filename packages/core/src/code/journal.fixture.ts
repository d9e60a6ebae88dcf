import type {
  InnerNames,
  InnerOutcome,
  InnerRequest,
  JournaledOutcome,
  ProgramJournal,
} from '../backends/program-journal.ts'

/** A journal in memory, with what a test wants to know of it. */
export interface MemoryJournal extends ProgramJournal {
  /** What the program was told, that of earlier attempts included, in its order. */
  readonly entries: readonly JournaledOutcome[]
  /** Numbers of what was made in this attempt, in the order in which it began. */
  readonly made: readonly number[]
  /** What was asked in this attempt and no earlier one was told of. */
  readonly asks: readonly InnerRequest[]
  /** How many outcomes the program had been told at each of its rests in this attempt. */
  readonly rested: readonly number[]
}

export interface MemoryJournalOptions {
  readonly told?: readonly JournaledOutcome[]
  readonly seed?: number
  readonly startedMs?: number
  readonly resumed?: boolean
  /** Stands around what is made; a rejection ends the attempt. */
  readonly around?: (ask: InnerRequest, make: (names?: InnerNames) => Promise<InnerOutcome>) => Promise<InnerOutcome>
}

/** A clock of its own, which goes on by a second with each entry, so that tests do not depend on the time of day. */
export function memoryJournal({
  told = [],
  seed = 7,
  startedMs = 1_000_000,
  resumed = told.length > 0,
  around = (_ask, make) => make(),
}: MemoryJournalOptions = {}): MemoryJournal {
  const entries = [...told]
  const made: number[] = []
  const asks: InnerRequest[] = []
  const rested: number[] = []
  return {
    seed,
    startedMs,
    outcomes: told,
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

/** As it would come back from a table. */
function kept(outcome: InnerOutcome): InnerOutcome {
  return JSON.parse(JSON.stringify(outcome)) as InnerOutcome
}
