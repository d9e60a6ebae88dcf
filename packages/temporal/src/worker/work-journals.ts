import type { AdvanceInput, JournalEntry, WorkDocument } from '../protocol/work.ts'

/** A work with its whole journal. */
export interface KnownWork {
  readonly work: WorkDocument
  /** When the work was handed over. */
  readonly startedMs: number
  readonly journal: readonly JournalEntry[]
}

/** The journals of works that this worker advanced, so that each advance gets only what is new. */
export interface WorkJournals {
  /** Undefined when the input does not continue what is known; it is given from the beginning then. */
  read(execution: string, input: AdvanceInput): KnownWork | undefined
  /** The work has ended. */
  forget(execution: string): void
}

/** The journals of more works are given again. */
const mostWorks = 256

export function createWorkJournals(): WorkJournals {
  const all = new Map<string, KnownWork & { readonly journal: JournalEntry[] }>()
  return {
    read(execution, { from, entries, start }) {
      const known = start === undefined ? all.get(execution) : { ...start, journal: [] }
      // A journal that is ahead is of an advance whose answer was lost: what follows may differ.
      if (known === undefined || known.journal.length < from) return undefined
      known.journal.length = from
      known.journal.push(...entries)
      all.delete(execution)
      all.set(execution, known)
      for (const oldest of all.keys()) {
        if (all.size <= mostWorks) break
        all.delete(oldest)
      }
      return { ...known, journal: [...known.journal] }
    },
    forget: (execution) => void all.delete(execution),
  }
}
