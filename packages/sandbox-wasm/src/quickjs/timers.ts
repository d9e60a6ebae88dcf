/** Timers of one program; it knows their work, this only when it is due. */
export interface Timers {
  /** Throws when there are too many. */
  set(id: number, due: number): void
  clear(id: number): void
  /** The timer that is due first, of those that are due together the one that was set first. */
  next(): { readonly id: number; readonly due: number } | undefined
}

/** More than this is a mistake or an attack, and looking for the next one would take long. */
const mostTimers = 10_000

export function createTimers(): Timers {
  const dues = new Map<number, number>()
  return {
    set(id, due) {
      if (dues.size >= mostTimers) throw new RangeError(`more than ${mostTimers} timers`)
      dues.set(id, due)
    },
    clear: (id) => void dues.delete(id),
    next() {
      let first: { id: number; due: number } | undefined
      for (const [id, due] of dues) if (first === undefined || due < first.due) first = { id, due }
      return first
    },
  }
}
