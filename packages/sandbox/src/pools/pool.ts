import { ToolError } from '@gantry/contract'
import { unlessAborted } from '@gantry/core/internal/resilience/abort'
import { retry } from '@gantry/core/internal/resilience/retry'
import type { Runtime, Sandbox, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import type { Hold } from './capacity.ts'
import { disposeOf } from './disposals.ts'
import type { Timing } from './timing.ts'
import { type WarmSandbox, warmSandbox } from './warm-sandbox.ts'

export interface PoolSettings {
  /** Warm sandboxes of one spec that the pool keeps without demand. */
  readonly min: number
  /** Most warm sandboxes of one spec. */
  readonly max: number
  /** Idle time after which a warm sandbox is disposed. */
  readonly maxIdleMs: number
}

/** The functions that a pool uses of its owner. */
interface PoolParts {
  readonly settings: PoolSettings
  readonly timing: Timing
  /** Holds shared capacity for one more sandbox; undefined when there is none for this pool. */
  take(bytes: number): Hold | undefined
  /** The memory of one warm sandbox, as far as it is known before one was measured. */
  readonly bytes: number
  open(signal: AbortSignal): Promise<Sandbox>
  /** Asks the other pools to end sandboxes that are worth less than one more of this size and worth. */
  makeSpace(bytes: number, worth: number): void
  /** Schedules that all pools are tended after a delay. */
  wake(ms: number): void
  /** Tracks a start or a disposal in the background, so that `close` can wait for it; it never rejects. */
  track(work: Promise<void>): void
  /** Called for a failed warm start, for a warm sandbox that ended, and when sandboxes cannot be paused. */
  onFault(error: unknown): void
}

/**
 * ## Pool of warm sandboxes
 *
 * Sandboxes of one runtime and spec, started ahead. Each is handed out once.
 *
 * States of a slot: `starting`, `waiting`, `taken`, `disposing`, `gone`.
 *
 * | from        | to          | cause                                                                                |
 * | ----------- | ----------- | ------------------------------------------------------------------------------------ |
 * | –           | `starting`  | `grow` finds fewer slots than the demand, and the shared capacity has space          |
 * | `starting`  | `waiting`   | the sandbox opened                                                                   |
 * | `starting`  | `gone`      | the start failed                                                                     |
 * | `waiting`   | `taken`     | `take`                                                                               |
 * | `waiting`   | `disposing` | the sandbox died, idled for `maxIdleMs`, exceeds the demand, `evict`, or `close`     |
 * | `disposing` | `gone`      | its disposal ended                                                                   |
 *
 * A slot holds capacity from `starting` until it is `taken` or `gone`. After a failed start the pool backs off for a time
 * that doubles, until any start of this spec succeeds. Where the runtime can pause sandboxes, those that wait longer than
 * `pauseAfterMs` are paused, but never the one that is next in line.
 */
export interface Pool {
  /** Number of warm sandboxes. */
  readonly waiting: number
  /** A warm sandbox, or a fresh one. The caller disposes it. */
  take(signal: AbortSignal): Promise<Sandbox>
  /** Measures warm sandboxes, and ends those that the demand does not need. */
  shrink(): void
  /** Starts missing sandboxes. Returns when to tend the pool again; undefined when it is empty and without demand. */
  grow(): number | undefined
  /** Predicted takes for each sandbox, if there were `more` or fewer of them. */
  worth(more: number): number
  /** The memory of the sandbox that would be taken last of the first `waiting`; 0 when there is none. */
  bytesOf(waiting: number): number
  /** Ends the sandbox that would be taken last. */
  evict(): void
  /** Ends all warm and starting sandboxes; `take` still opens new ones. */
  close(): void
}

/** Delay before a replacement starts, so that the run that took the sandbox has the processor. */
export const refillMs = 10
/** More concurrent starts would only slow each other and the runs. */
const startsAtOnce = 2
/** Interval at which a pool in use is tended; a sandbox has started its interpreter by then, and is measured. */
const tendMs = 1_000
/** A pause and a resume cost more than a run, so that a sandbox that is soon needed is not paused. */
const pauseAfterMs = 5_000
const [firstRestMs, longestRestMs] = [1_000, 60_000]

export function createPool(parts: PoolParts): Pool {
  const { settings, timing, track } = parts
  const demand = createDemand(settings)
  /** In the order in which they are taken: the oldest is next in line. */
  const waiting = new Map<Sandbox, WarmSandbox>()
  const stop = new AbortController()
  let { bytes } = parts
  let starting = 0
  let failures = 0
  let restUntil = 0
  let canPause = true

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
  const discard = ({ sandbox, hold }: WarmSandbox): void => {
    waiting.delete(sandbox)
    hold.leave()
    track(disposeOf(sandbox).then(hold.release))
  }
  const lose = (warm: WarmSandbox, error: unknown): void => {
    if (!waiting.has(warm.sandbox)) return
    discard(warm)
    fail(error)
  }
  const admit = (sandbox: Sandbox, hold: Hold): void => {
    const warm = warmSandbox(sandbox, timing.now(), hold, stop.signal)
    waiting.set(sandbox, warm)
    if (stop.signal.aborted) discard(warm)
    recover()
    parts.wake(0)
    const lost = (): void =>
      lose(warm, new ToolError('SANDBOX_INIT_FAILED', 'A sandbox ended while it waited for a program.'))
    sandbox.ended.then(lost, lost)
  }
  const start = async (hold: Hold): Promise<void> => {
    starting += 1
    try {
      admit(await parts.open(stop.signal), hold)
    } catch (error) {
      hold.release()
      fail(error)
    } finally {
      starting -= 1
    }
  }
  const openFresh = async (signal: AbortSignal): Promise<Sandbox> => {
    const fresh = await parts.open(signal)
    recover()
    return fresh
  }
  /** A sandbox whose pause failed is in an unknown state; others of this pool would fare no better. */
  const pause = async (warm: WarmSandbox): Promise<void> => {
    try {
      await warm.pause()
    } catch (error) {
      if (!waiting.has(warm.sandbox)) return
      canPause = false
      discard(warm)
      parts.onFault(error)
    }
  }
  const resume = (warm: WarmSandbox): Promise<void> => warm.resume().catch((error: unknown) => lose(warm, error))
  /** Keeps the next sandbox of the queue awake, so that a take does not wait for the engine, and pauses the others. */
  const tendPauses = (now: number): void => {
    const [next, ...others] = waiting.values()
    if (next === undefined) return
    if (next.state === 'paused') track(resume(next))
    if (!canPause) return
    for (const warm of others) {
      if (warm.sandbox.pausing === undefined || warm.state !== 'awake') continue
      if (now - warm.since >= pauseAfterMs) track(pause(warm))
    }
  }
  const measure = (now: number): void => {
    for (const { sandbox, since, hold } of waiting.values()) {
      const used = now - since < tendMs ? undefined : sandbox.memoryBytes?.()
      if (used === undefined) continue
      hold.measure(used)
      bytes = used
    }
  }
  const targetOf = (now: number): number => (stop.signal.aborted ? 0 : demand.target(now))
  const lacks = (now: number): boolean =>
    now >= restUntil && starting < startsAtOnce && waiting.size + starting < targetOf(now)
  const worth = (more: number): number => demand.level(timing.now()) / Math.max(1, waiting.size + starting + more)
  return {
    get waiting() {
      return waiting.size
    },
    async take(signal) {
      demand.take(timing.now())
      parts.wake(refillMs)
      const [first, ...others] = waiting.values()
      const warm = first?.state === 'awake' ? first : (others.find(({ state }) => state === 'awake') ?? first)
      if (warm === undefined) return openFresh(signal)
      waiting.delete(warm.sandbox)
      tendPauses(timing.now())
      try {
        if (warm.state !== 'awake') await unlessAborted(warm.resume(), signal)
      } catch {
        discard(warm)
        signal.throwIfAborted()
        return openFresh(signal)
      }
      warm.hold.release()
      return warm.sandbox
    },
    shrink() {
      const now = timing.now()
      const target = targetOf(now)
      for (const warm of waiting.values()) {
        if (now - warm.since >= settings.maxIdleMs || waiting.size + starting > target) discard(warm)
      }
      measure(now)
      tendPauses(now)
    },
    grow() {
      const now = timing.now()
      while (lacks(now)) {
        const hold = parts.take(bytes)
        if (hold === undefined) {
          parts.makeSpace(bytes, worth(1))
          break
        }
        track(start(hold))
      }
      if (waiting.size + starting + targetOf(now) > 0) return tendMs
      const rest = demand.last + pairMs - now
      return rest >= 0 ? rest + 1 : undefined
    },
    worth,
    bytesOf: (count) => [...waiting.values()][count - 1]?.hold.bytes ?? 0,
    evict() {
      const last = [...waiting.values()].at(-1)
      if (last !== undefined) discard(last)
    },
    close() {
      stop.abort(new ToolError('CANCELLED', 'The pool was closed.'))
      for (const warm of [...waiting.values()]) discard(warm)
    },
  }
}

/** Predicts how many warm sandboxes of one spec are needed. */
interface Demand {
  /** Records a take. */
  take(now: number): void
  /** The number of warm sandboxes to keep now. */
  target(now: number): number
  /** The decayed count of takes. */
  level(now: number): number
  /** Time of the last take. */
  readonly last: number
}

/** Two takes within this time predict more; after this time without a take the demand is zero. */
export const pairMs = 60_000
/** A take counts half as much after this time. */
const halfLifeMs = 10_000

/**
 * Sizes a pool by a decaying count of recent takes. One take predicts nothing, so a single run costs nothing extra;
 * from the second take within a minute on, the count is the target, between `min` and `max`.
 */
function createDemand({ min, max }: { readonly min: number; readonly max: number }): Demand {
  let count = 0
  let last = Number.NEGATIVE_INFINITY
  let repeated = false
  const level = (now: number): number => (count === 0 ? 0 : count * 2 ** ((last - now) / halfLifeMs))
  return {
    take(now) {
      count = last === Number.NEGATIVE_INFINITY ? 1 : level(now) + 1
      repeated = now - last <= pairMs
      last = now
    },
    target(now) {
      if (!repeated || now - last > pairMs) return min
      return Math.min(max, Math.max(min, 1, Math.round(level(now))))
    },
    level,
    get last() {
      return last
    },
  }
}

/** Retries of a failed start. */
const rule = { attempts: 3, delayMs: 25, maxDelayMs: 250 }

/**
 * Runs work that begins with a sandbox start, and repeats it when the sandbox did not start: three attempts in all.
 * - Cancellation: the signal ends the delay between two attempts; the work handles its own cancellation.
 * - Errors: SANDBOX_INIT_FAILED with the number of attempts and the last failure as its cause and `details.reason`; every
 * other error, and so every error after the program began, is thrown unchanged and ends the attempts.
 */
export async function startThrice<T>(
  kind: string,
  work: (attempt: number) => Promise<T>,
  signal: AbortSignal,
  random?: () => number,
): Promise<{ readonly value: T; readonly attempts: number }> {
  let attempts = 0
  const tried = (attempt: number): Promise<T> => {
    attempts = attempt
    return work(attempt)
  }
  try {
    const value = await retry(tried, { rule, mayRepeat: didNotStart, signal, ...(random && { random }) })
    return { value, attempts }
  } catch (error) {
    if (!didNotStart(error)) throw error
    signal.throwIfAborted()
    throw new ToolError('SANDBOX_INIT_FAILED', `A sandbox (${kind}) did not start, tried ${attempts} times.`, {
      cause: error,
      details: { runtime: kind, attempts, reason: reasonOf(error) },
    })
  }
}

/** Opens a sandbox; any other error that the runtime throws becomes SANDBOX_INIT_FAILED. */
export async function openSandbox(runtime: Runtime, spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> {
  try {
    return await runtime.open(spec, signal)
  } catch (error) {
    signal.throwIfAborted()
    if (ToolError.is(error)) throw error
    throw new ToolError('SANDBOX_INIT_FAILED', 'The sandbox did not start.', { cause: error })
  }
}

const longestReason = 500

/** The last message of the runtime; a failed start is always a ToolError here, so its text is ours. */
function reasonOf(error: unknown): string {
  return ToolError.is(error) ? error.message.slice(0, longestReason) : 'The runtime gave no reason.'
}

function didNotStart(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'SANDBOX_INIT_FAILED'
}
