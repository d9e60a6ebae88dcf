import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import type { Timing } from '../pools/timing.ts'

/**
 * ## Order of runtimes
 *
 * Selection takes the first runtime that meets a request; this decides which comes first. It never decides which runtimes
 * are strong enough, so no order can weaken a request.
 *
 * 1. Runtimes are in the order of their expected start: a moving estimate of the time to open a sandbox of the language.
 *    The first start is not counted, because it loads what later ones share. Before there is an estimate, `cost` gives it,
 *    as much slower as all measured runtimes are than their `cost`; an estimate that is not renewed fades to that, so that a
 *    runtime which was slow once is tried again.
 * 2. Two neighbours change places only when the later one is expected to start in half the time, so that estimates which
 *    are close to each other do not make calls alternate between runtimes.
 * 3. A runtime with as many starts under way as it may have comes after the others, and an unavailable one comes last.
 *
 * States of a runtime:
 *
 * | from      | to        | cause                                                                              |
 * | --------- | --------- | ---------------------------------------------------------------------------------- |
 * | `ready`   | `full`    | `mostStarts` sandboxes are being opened                                            |
 * | `full`    | `ready`   | a start ended                                                                      |
 * | any       | `unavailable` | opening a sandbox ended with RUNTIME_UNAVAILABLE                                   |
 * | `unavailable` | `ready`   | the backoff, which doubles with each failure, has passed: the next call is the trial  |
 * | `ready`   | `unavailable` | a trial begins, so that one call at a time tries the runtime                       |
 * | `unavailable` | `ready`   | a sandbox opened                                                                   |
 */
export interface LiveOrder<R extends Runtime> {
  /** All runtimes in the order in which selection considers them. */
  statuses(language: string | undefined): readonly RuntimeStatus<R>[]
  /** Records that selection took a runtime. */
  take(runtime: R): void
  /** Observes the opening of a sandbox. Rejects as the opening does. */
  observe<T>(runtime: R, language: string | undefined, open: () => Promise<T>, isUnavailable: IsUnavailable): Promise<T>
}

type IsUnavailable = (error: unknown) => boolean

export interface RuntimeStatus<R extends Runtime = Runtime> {
  readonly runtime: R
  /** The expected time to open a sandbox, in milliseconds. */
  readonly startMs: number
  /** Whether a sandbox of this language was ever opened; otherwise `startMs` is a guess from `cost`. */
  readonly isMeasured: boolean
  readonly state: 'ready' | 'full' | 'unavailable'
}

/** Starts of one runtime at a time; further calls go to another runtime that meets their floor, where there is one. */
const mostStarts = 32
/** The weight of a new measurement. */
const weight = 0.2
/** Starts after which the estimate counts. */
const countedFrom = 2
/** The time in which half of an estimate that is not renewed fades. */
const halfLifeMs = 60_000
const [firstBackoffMs, longestBackoffMs] = [2_000, 60_000]
/** How much faster a runtime must be than the one before it to change places with it. */
const advantage = 2

interface Backoff {
  readonly failures: number
  readonly until: number
}

export function createLiveOrder<R extends Runtime>(runtimes: readonly R[], timing: Timing): LiveOrder<R> {
  const measured = new Map<R, Map<string, Measured>>()
  const orders = new Map<string, readonly R[]>()
  const starts = new Map<R, number>()
  const backoffs = new Map<R, Backoff>()
  const cheapestFirst = runtimes.toSorted((one, other) => one.cost - other.cost)

  const backOff = (runtime: R, failures: number): void => {
    const backoffMs = Math.min(longestBackoffMs, firstBackoffMs * 2 ** Math.min(failures - 1, 30))
    backoffs.set(runtime, { failures, until: timing.now() + backoffMs })
  }
  const stateOf = (runtime: R): RuntimeStatus['state'] => {
    if ((backoffs.get(runtime)?.until ?? Number.NEGATIVE_INFINITY) > timing.now()) return 'unavailable'
    return (starts.get(runtime) ?? 0) >= mostStarts ? 'full' : 'ready'
  }
  const count = (runtime: R, change: number): void => void starts.set(runtime, (starts.get(runtime) ?? 0) + change)
  const learn = (runtime: R, language: string, ms: number): void => {
    const known = measured.get(runtime) ?? new Map<string, Measured>()
    measured.set(runtime, known.set(language, renewed(known.get(language), ms, timing.now())))
    backoffs.delete(runtime)
  }
  return {
    statuses(language = '') {
      const rows = runtimes.map((runtime) => ({ runtime, cost: runtime.cost, ...measured.get(runtime)?.get(language) }))
      const expected = new Map(rows.map((row) => [row.runtime, expectedStart(row, rows, timing.now())]))
      const startMs = (runtime: R): number => expected.get(runtime) ?? runtime.cost
      const order = reordered(orders.get(language) ?? cheapestFirst, startMs)
      // Only a language that some runtime has opened is kept, which bounds the map.
      if (rows.some(({ starts: opened = 0 }) => opened > 0)) orders.set(language, order)
      return ranked(
        order.map((runtime) => ({
          runtime,
          startMs: startMs(runtime),
          isMeasured: isMeasured(measured.get(runtime)?.get(language) ?? {}),
          state: stateOf(runtime),
        })),
      )
    },
    take(runtime) {
      const { failures } = backoffs.get(runtime) ?? {}
      if (failures !== undefined) backOff(runtime, failures)
    },
    async observe(runtime, language = '', open, isUnavailable) {
      const before = timing.now()
      count(runtime, 1)
      try {
        const opened = await open()
        learn(runtime, language, timing.now() - before)
        return opened
      } catch (error) {
        if (isUnavailable(error)) backOff(runtime, (backoffs.get(runtime)?.failures ?? 0) + 1)
        throw error
      } finally {
        count(runtime, -1)
      }
    },
  }
}

/** Measurements of one runtime and language. */
export interface Measured {
  readonly ms: number
  readonly at: number
  readonly starts: number
}

type MeasuredRow = Partial<Measured> & { readonly cost: number }

/** The estimate after one more start. */
export function renewed(before: Measured | undefined, ms: number, at: number): Measured {
  const { starts = 0, ms: estimate = ms } = before ?? {}
  return { ms: starts < countedFrom ? ms : estimate + weight * (ms - estimate), at, starts: starts + 1 }
}

function isMeasured({ starts = 0 }: Partial<Measured>): boolean {
  return starts >= countedFrom
}

/** The expected time to open a sandbox of one runtime, among all of them, at a time. */
export function expectedStart(row: MeasuredRow, all: readonly MeasuredRow[], now: number): number {
  const others = all.filter((other) => other !== row && isMeasured(other))
  const ratios = others.map(({ ms = 0, cost }) => atLeastOne(ms) / atLeastOne(cost))
  const guess = atLeastOne(row.cost) * (ratios.length === 0 ? 1 : Math.min(...ratios))
  if (!isMeasured(row)) return guess
  const { ms = guess, at = now } = row
  return guess + (atLeastOne(ms) - guess) * 2 ** ((at - now) / halfLifeMs)
}

/** Below a millisecond nothing is worth a decision, and nothing may be divided by 0. */
function atLeastOne(value: number): number {
  return Math.max(1, value)
}

/** Lets each runtime pass its neighbours that are expected to take at least twice as long; otherwise the order stays. */
export function reordered<R>(order: readonly R[], startMs: (runtime: R) => number): readonly R[] {
  const next: R[] = []
  for (const runtime of order) {
    let place = next.length
    while (place > 0 && startMs(runtime) * advantage <= startMs(next[place - 1] ?? runtime)) place -= 1
    next.splice(place, 0, runtime)
  }
  return next
}

const ranks: { readonly [State in RuntimeStatus['state']]: number } = { ready: 0, full: 1, unavailable: 2 }

/** Ready runtimes first, then full ones, then unavailable ones, each in the given order. */
export function ranked<R extends Runtime>(statuses: readonly RuntimeStatus<R>[]): readonly RuntimeStatus<R>[] {
  return statuses.toSorted((one, other) => ranks[one.state] - ranks[other.state])
}
