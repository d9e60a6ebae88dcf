import { ToolError } from '@gantry/contract'
import type { Sandbox } from '@gantry/core/internal/runtimes/runtime'
import { disposeOf } from './start.ts'
import type { Timing } from './timing.ts'

export interface PoolSettings {
  /** Sandboxes of one sort that wait without demand. */
  readonly min: number
  /** The most of one sort that wait. */
  readonly max: number
  /** One that waited this long is thrown away. */
  readonly maxIdleMs: number
}

/** Capacity for sandboxes that wait, shared by all pools. */
export interface Capacity {
  /** False when the capacity is used up. What was taken must be given back. */
  take(bytes: number): boolean
  give(bytes: number): void
}

/** What a pool needs of those around it. */
interface PoolParts {
  readonly settings: PoolSettings
  readonly timing: Timing
  readonly capacity: Capacity
  /** The capacity that one waiting sandbox takes. */
  readonly bytes: number
  open(signal: AbortSignal): Promise<Sandbox>
  /** Asks for `tend` after a time. */
  wake(ms: number): void
  /** Tracks a start or a disposal in the background, so that `close` can wait for it; it never rejects. */
  track(work: Promise<void>): void
  /** Called for a failed start ahead, and for a sandbox that ended while it waited. */
  onFault(error: unknown): void
}

/**
 * ## Pool of warm sandboxes
 *
 * Sandboxes of one runtime and spec, started ahead. Each is handed out once.
 *
 * States of a slot: `starting`, `waiting`, `taken`, `disposing`, `gone`.
 *
 * | from        | to          | cause                                                                       |
 * | ----------- | ----------- | --------------------------------------------------------------------------- |
 * | –           | `starting`  | `tend` finds fewer slots than the demand, and the shared capacity has space |
 * | `starting`  | `waiting`   | the sandbox opened                                                          |
 * | `starting`  | `gone`      | the start failed                                                            |
 * | `waiting`   | `taken`     | `take`                                                                      |
 * | `waiting`   | `disposing` | the sandbox died, idled for `maxIdleMs`, exceeds the demand, or `close`     |
 * | `disposing` | `gone`      | its disposal ended                                                          |
 *
 * A slot holds capacity from `starting` until it is `taken` or `gone`. After a failed start the pool backs off for a time
 * that doubles, until any start of this sort succeeds.
 */
export interface Pool {
  /** How many wait. */
  readonly waiting: number
  /** One that waits, or a fresh one. The caller disposes it. */
  take(signal: AbortSignal): Promise<Sandbox>
  /** Starts what is missing and ends what is too much. Answers when to come again; undefined when nothing is left here. */
  tend(): number | undefined
  /** Ends everything that waits or starts; `take` still opens. */
  close(): void
}

/** How long a replacement lets the run that made it necessary go first: a start would take the processor from it. */
const refillMs = 10
/** More starts at a time would only slow each other and the runs. */
const startsAtOnce = 2
/** How often a pool in use is looked after. */
const tendMs = 1_000
const [firstRestMs, longestRestMs] = [1_000, 60_000]

export function createPool(parts: PoolParts): Pool {
  const { settings, timing, capacity, bytes, track } = parts
  const demand = createDemand(settings)
  /** Since when each waits, the oldest first. */
  const waiting = new Map<Sandbox, number>()
  const stop = new AbortController()
  let starting = 0
  let failures = 0
  let restUntil = 0

  const fail = (error: unknown): void => {
    if (stop.signal.aborted) return
    const restMs = Math.min(longestRestMs, firstRestMs * 2 ** Math.min(failures, 30))
    failures += 1
    restUntil = timing.now() + restMs
    parts.onFault(error)
    parts.wake(restMs)
  }
  const recover = (): void => {
    failures = 0
    restUntil = 0
  }
  const discard = (sandbox: Sandbox): void => {
    waiting.delete(sandbox)
    track(disposeOf(sandbox).then(() => capacity.give(bytes)))
  }
  const lose = (sandbox: Sandbox): void => {
    if (!waiting.has(sandbox)) return
    discard(sandbox)
    fail(new ToolError('SANDBOX_INIT_FAILED', 'A sandbox ended while it waited for a program.'))
  }
  const admit = (sandbox: Sandbox): void => {
    waiting.set(sandbox, timing.now())
    if (stop.signal.aborted) discard(sandbox)
    recover()
    parts.wake(0)
    const lost = (): void => lose(sandbox)
    sandbox.ended.then(lost, lost)
  }
  const start = async (): Promise<void> => {
    starting += 1
    try {
      admit(await parts.open(stop.signal))
    } catch (error) {
      capacity.give(bytes)
      fail(error)
    } finally {
      starting -= 1
    }
  }
  const endSurplus = (now: number, target: number): void => {
    for (const [sandbox, since] of waiting) {
      if (now - since >= settings.maxIdleMs || waiting.size + starting > target) discard(sandbox)
    }
  }
  const startMissing = (now: number, target: number): void => {
    while (now >= restUntil && starting < startsAtOnce && waiting.size + starting < target && capacity.take(bytes)) {
      track(start())
    }
  }
  return {
    get waiting() {
      return waiting.size
    },
    async take(signal) {
      demand.take(timing.now())
      parts.wake(refillMs)
      const [ready] = waiting.keys()
      if (ready === undefined) {
        const fresh = await parts.open(signal)
        recover()
        return fresh
      }
      waiting.delete(ready)
      capacity.give(bytes)
      return ready
    },
    tend() {
      const now = timing.now()
      const target = stop.signal.aborted ? 0 : demand.target(now)
      endSurplus(now, target)
      startMissing(now, target)
      if (waiting.size + starting + target > 0) return tendMs
      const rest = demand.last + pairMs - now
      return rest >= 0 ? rest + 1 : undefined
    },
    close() {
      stop.abort(new ToolError('CANCELLED', 'The pool was closed.'))
      for (const sandbox of [...waiting.keys()]) discard(sandbox)
    },
  }
}

/** How many sandboxes of one sort are wanted ahead. */
interface Demand {
  /** Counts one that was taken. */
  take(now: number): void
  /** How many should wait now. */
  target(now: number): number
  /** When the last one was taken. */
  readonly last: number
}

/** Two takes within this time predict more; after this time without a take the demand is zero. */
export const pairMs = 60_000
/** A take counts half as much after this time. */
const halfLifeMs = 10_000

/**
 * Sizes a pool by a decaying count of recent takes. One take shows nothing, so that what is run once
 * costs nothing more; from the second within a minute on, as many wait as the count says, between `min` and `max`.
 */
function createDemand({ min, max }: { readonly min: number; readonly max: number }): Demand {
  let count = 0
  let last = Number.NEGATIVE_INFINITY
  let repeated = false
  const faded = (now: number): number => count * 2 ** ((last - now) / halfLifeMs)
  return {
    take(now) {
      count = last === Number.NEGATIVE_INFINITY ? 1 : faded(now) + 1
      repeated = now - last <= pairMs
      last = now
    },
    target(now) {
      if (!repeated || now - last > pairMs) return min
      return Math.min(max, Math.max(min, 1, Math.round(faded(now))))
    },
    get last() {
      return last
    },
  }
}
