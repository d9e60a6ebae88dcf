import { canonicalJson } from '@gantry/core/internal/json/canonical'
import type { Runtime, Sandbox, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { type Capacity, createPool, type Pool, type PoolSettings } from './pool.ts'
import { openSandbox } from './start.ts'
import type { Timing } from './timing.ts'

export interface PoolsSettings extends PoolSettings {
  /** The most that wait, of all sorts together. */
  readonly maxTotal: number
  /** Memory of all that wait, by what each runtime says that one of its sandboxes holds. */
  readonly maxMemoryBytes: number
}

export const defaultPools: PoolsSettings = {
  min: 0,
  max: 4,
  maxTotal: 16,
  maxMemoryBytes: 268_435_456,
  maxIdleMs: 60_000,
}

/** Something that was to be started ahead and was not, or that did not last. */
export interface PoolFault {
  readonly runtime: string
  readonly language?: string
  readonly error: unknown
}

/** A pool for each sort of sandbox: runtime, language and everything else that must be known when it starts. */
export interface Pools {
  /** How many sandboxes wait, of all sorts together. */
  readonly waiting: number
  /** One that waits, or a fresh one. Not everything can wait: see `canWait`. The caller disposes it. */
  take(runtime: Runtime, spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox>
  /** Ends everything that waits and waits for the end of it. What was taken is not touched. */
  close(): Promise<void>
}

/** Sorts beyond this number make that which was not used for longest go. */
const mostPools = 64
/** What a sandbox holds while it waits when its runtime does not say: a started Node. */
const usualBytes = 50_331_648

/** Without settings nothing waits, and each take opens. */
export function createPools(
  settings: PoolsSettings | undefined,
  timing: Timing,
  onFault: (fault: PoolFault) => void,
): Pools {
  /** The one that was used last is the last. */
  const pools = new Map<string, Pool>()
  const work = new Set<Promise<void>>()
  const wakeTimer = createWakeTimer(timing, () => tendAll())
  let closed = settings === undefined

  const track = (each: Promise<void>): void => {
    work.add(each)
    void each.finally(() => work.delete(each))
  }
  const capacity = createCapacity(settings ?? defaultPools)
  const tendAll = (): void => {
    for (const [key, pool] of pools) {
      const againMs = pool.tend()
      if (againMs === undefined) pools.delete(key)
      else wakeTimer.wake(againMs)
    }
  }
  const make = (runtime: Runtime, spec: SandboxSpec): Pool =>
    createPool({
      settings: settings ?? defaultPools,
      timing,
      capacity,
      bytes: runtime.idleBytes?.(spec) ?? usualBytes,
      open: (signal) => openSandbox(runtime, spec, signal),
      wake: wakeTimer.wake,
      track,
      onFault: (error) => report(runtime, spec, error),
    })
  const report = ({ kind }: Runtime, { language }: SandboxSpec, error: unknown): void => {
    try {
      onFault({ runtime: kind, ...(language === undefined ? {} : { language }), error })
    } catch {
      // A listener that throws must not end the host's process.
    }
  }
  const poolFor = (runtime: Runtime, spec: SandboxSpec): Pool => {
    const key = `${runtime.kind} ${canonicalJson(spec)}`
    const pool = pools.get(key) ?? make(runtime, spec)
    pools.delete(key)
    pools.set(key, pool)
    const [oldest] = pools
    if (pools.size > mostPools && oldest !== undefined) {
      pools.delete(oldest[0])
      oldest[1].close()
    }
    return pool
  }
  return {
    get waiting() {
      return [...pools.values()].reduce((sum, pool) => sum + pool.waiting, 0)
    },
    take: (runtime, spec, signal) =>
      closed || !canWait(spec) ? openSandbox(runtime, spec, signal) : poolFor(runtime, spec).take(signal),
    async close() {
      closed = true
      wakeTimer.stop()
      for (const pool of pools.values()) pool.close()
      pools.clear()
      while (work.size > 0) await Promise.all(work)
    },
  }
}

/** Whether one sandbox is as good as another, so that it can be there before the call that needs it. */
function canWait({ network, session, deterministic, dial }: SandboxSpec): boolean {
  return network === 'none' && session !== true && deterministic === undefined && dial === undefined
}

/** Counts sandboxes that wait, and their bytes. */
function createCapacity({ maxTotal, maxMemoryBytes }: PoolsSettings): Capacity {
  let [count, held] = [0, 0]
  return {
    take(bytes) {
      if (count >= maxTotal || held + bytes > maxMemoryBytes) return false
      count += 1
      held += bytes
      return true
    },
    give(bytes) {
      count -= 1
      held -= bytes
    },
  }
}

/** One timer for all pools, set for the first of them that wants to be looked after. */
function createWakeTimer(timing: Timing, ring: () => void): { wake(ms: number): void; stop(): void } {
  let due = Number.POSITIVE_INFINITY
  let callOff: (() => void) | undefined
  let stopped = false
  return {
    wake(ms) {
      const at = timing.now() + ms
      if (stopped || at >= due) return
      callOff?.()
      due = at
      callOff = timing.after(ms, () => {
        due = Number.POSITIVE_INFINITY
        ring()
      })
    },
    stop() {
      stopped = true
      callOff?.()
    },
  }
}
