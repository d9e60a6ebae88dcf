import type { Deterministic } from '../channel/messages.ts'

/**
 * The time that QuickJS sees: it asks `Date.now` and `performance.now` of its thread, which runs nothing else that needs
 * them, so both are replaced there.
 */
export interface GuestClock {
  /** The machine's own, for limits. */
  readonly monotonic: () => number
  /** Begins the time of a program: it goes on from now, or stands. */
  begin(deterministic: Deterministic | undefined): void
  /** Moves the time of a program whose clock stands; it never goes back. */
  advance(nowMs: number): void
  /** Between programs it is nought, so that contexts are the same whenever they are made. */
  end(): void
}

export function installClock(): GuestClock {
  const date = Date.now
  const monotonic = performance.now.bind(performance)
  let [wallMs, elapsedMs] = [date, () => 0]
  let standing: { readonly now: number; readonly started: number } | undefined
  const stand = (now: number, started: number): void => {
    standing = { now, started }
    wallMs = () => now
    elapsedMs = () => now - started
  }
  Date.now = () => wallMs()
  performance.now = () => elapsedMs()
  // Where the host stands is no business of a program, and would make its results differ from place to place.
  Date.prototype.getTimezoneOffset = () => 0
  return {
    monotonic,
    begin(deterministic) {
      if (deterministic === undefined) {
        const started = monotonic()
        elapsedMs = () => monotonic() - started
      } else stand(deterministic.nowMs, deterministic.nowMs)
    },
    advance(nowMs) {
      if (standing !== undefined && nowMs > standing.now) stand(nowMs, standing.started)
    },
    end() {
      standing = undefined
      wallMs = date
      elapsedMs = () => 0
    },
  }
}

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
