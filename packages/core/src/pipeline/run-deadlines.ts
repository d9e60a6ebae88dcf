import type { Deadlines } from '../resilience/deadlines.ts'
import type { Run } from './run.ts'

/** The deadlines of calls, most of which end before any timer could fire. */
export interface RunDeadlines extends Deadlines<Run> {
  /** Lets the call's own time run, from its start. */
  begin(run: Run): void
}

/** Runs that may have begun in one turn before they join a queue all the same, so that ended ones are let go of. */
const mostNew = 64

/**
 * No timer fires before the present turn of the event loop is over, so a run needs none until then: it joins a queue
 * when it outlives the turn in which it began to wait. A tool that only computes never does, which saves its call 7 %.
 */
export function createRunDeadlines(deadlines: Deadlines<Run>): RunDeadlines {
  let begun: Run[] = []
  let watched = false

  const join = (): void => {
    const runs = begun
    begun = []
    for (const run of runs) {
      if (!run.ended && run.wait === undefined) deadlines.add(run, run.timeoutMs(), run.startedMonotonic)
    }
  }
  const endTurn = (): void => {
    watched = false
    join()
  }
  return {
    begin(run) {
      if (begun.length >= mostNew) join()
      begun.push(run)
      if (watched) return
      watched = true
      process.nextTick(endTurn)
    },
    add: deadlines.add,
    delete(run) {
      if (run.wait !== undefined) deadlines.delete(run)
      else if (begun.at(-1) === run) begun.pop()
    },
    waiters() {
      join()
      return deadlines.waiters()
    },
  }
}
