import type { Deterministic } from '../thread/job.ts'

/**
 * The time that QuickJS sees: it asks `Date.now` and `performance.now` of its thread, which runs nothing else that needs
 * them, so both are replaced there.
 */
export interface GuestClock {
  /** The machine's own, for limits. */
  readonly monotonic: () => number
  /** Begins the time of a program: it goes on from now, or stands. */
  begin(deterministic: Deterministic | undefined): void
  /** Between programs it is nought, so that contexts are the same whenever they are made. */
  end(): void
}

export function installClock(): GuestClock {
  const date = Date.now
  const monotonic = performance.now.bind(performance)
  let [wallMs, elapsedMs] = [date, () => 0]
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
      } else wallMs = () => deterministic.nowMs
    },
    end() {
      wallMs = date
      elapsedMs = () => 0
    },
  }
}
