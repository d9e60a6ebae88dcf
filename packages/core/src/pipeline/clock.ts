import { performance } from 'node:perf_hooks'
import type { Deadlines } from '../resilience/deadlines.ts'
import type { Run } from './run.ts'

// The global of this name is a getter, which costs a call 5 % in its two readings.

/** Time as the pipeline sees it; injectable so that tests decide. */
export interface Clock {
  /** Milliseconds since 1970, at a monotonic time that was just read. */
  now(monotonic: number): number
  /** Milliseconds that only grow. */
  monotonic(): number
  iso(ms: number): string
}

/** The wall clock is read anew after this long; in between it follows the monotonic one, which saves a reading a call. */
const followMs = 20

/** A clock over `readWall`, by default the machine's; a millisecond is formatted once and most of it once a minute, because a call needs three. */
export function systemClock(readWall: () => number = Date.now): Clock {
  let wallAt = Number.NEGATIVE_INFINITY
  let wall = 0
  let minute = Number.NaN
  let minuteText = ''
  let lastMs = Number.NaN
  let lastText = ''
  return {
    now(monotonic) {
      if (monotonic - wallAt >= followMs) {
        wallAt = monotonic
        wall = readWall()
      }
      return Math.floor(wall + monotonic - wallAt)
    },
    monotonic: () => performance.now(),
    iso(ms) {
      if (ms === lastMs) return lastText
      const whole = Math.floor(ms / 60_000)
      if (whole !== minute) {
        minute = whole
        minuteText = new Date(whole * 60_000).toISOString().slice(0, 17)
      }
      const rest = String(100_000 + Math.floor(ms - whole * 60_000))
      lastMs = ms
      lastText = `${minuteText}${rest.slice(1, 3)}.${rest.slice(3)}Z`
      return lastText
    },
  }
}

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
