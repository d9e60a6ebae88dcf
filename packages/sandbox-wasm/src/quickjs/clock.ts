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
