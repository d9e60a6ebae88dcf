import { canonicalJson } from '@gantry/core/internal/json/canonical'
import type { Runtime, Sandbox, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { type CapacityLimits, createCapacity, type Size } from './capacity.ts'
import { createPool, openSandbox, type Pool, type PoolSettings, refillMs } from './pool.ts'
import type { Timing } from './timing.ts'

export interface PoolsSettings extends PoolSettings, CapacityLimits {}

export const defaultPools: PoolsSettings = {
  min: 0,
  max: 4,
  maxTotal: 16,
  maxMemoryBytes: 268_435_456,
  maxIdleMs: 60_000,
}

/** A warm sandbox that did not start, or ended before it was taken. */
export interface PoolFault {
  readonly runtime: string
  readonly language?: string
  readonly error: unknown
}

/** One pool per sandbox spec: runtime, language and everything else that is fixed at the start. */
export interface Pools {
  /** Number of warm sandboxes of all specs. */
  readonly waiting: number
  /** A warm sandbox, or a fresh one for a spec that cannot be shared (see `canWait`). The caller disposes it. */
  take(runtime: Runtime, spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox>
  /** Ends all warm sandboxes and waits for their end. Sandboxes that were taken are not affected. */
  close(): Promise<void>
}

/** Most pools; above it the least recently used one is closed. */
const mostPools = 64
/** A sandbox is ended for one that is worth more than this many times as much: pools with equal demand leave each other alone. */
const worthTwice = 2
/** Memory of a warm sandbox when its runtime reports none: a started Node. */
const usualBytes = 50_331_648

const nothing: Size = { count: 0, bytes: 0 }

/** Without settings no sandbox is kept warm, and each take opens a new one. `open` starts a sandbox. */
export function createPools(
  settings: PoolsSettings | undefined,
  timing: Timing,
  onFault: (fault: PoolFault) => void,
  open: typeof openSandbox = openSandbox,
): Pools {
  /** In order of use, the most recent last. */
  const pools = new Map<string, Pool>()
  const work = new Set<Promise<void>>()
  const wakeTimer = createWakeTimer(timing, () => tendAll())
  let closed = settings === undefined

  const track = (each: Promise<void>): void => {
    work.add(each)
    void each.finally(() => work.delete(each))
  }
  const capacity = createCapacity(settings ?? defaultPools, () => wakeTimer.wake(refillMs))
  /** Whether space is being made for a pool, which those that need a sandbox less must not take meanwhile. */
  let isReserved = false
  /** Ends what is worth least, until that suffices; false, and nothing is ended, when it cannot suffice. */
  const evict = (mayGo: (worth: number) => boolean, suffices: (freed: Size) => boolean): boolean => {
    const chosen = leastWorth([...pools.values()], mayGo, suffices)
    for (const pool of chosen ?? []) pool.evict()
    return chosen !== undefined
  }
  const tendAll = (): void => {
    for (const pool of pools.values()) pool.shrink()
    // Measured sizes may exceed the estimates by which the sandboxes were started.
    evict(
      () => true,
      (freed) => capacity.wouldFit(nothing, freed),
    )
    isReserved = false
    const neediestFirst = [...pools].sort(([, one], [, other]) => other.worth(1) - one.worth(1))
    for (const [key, pool] of neediestFirst) {
      const againMs = pool.grow()
      if (againMs === undefined) pools.delete(key)
      else wakeTimer.wake(againMs)
    }
  }
  const make = (runtime: Runtime, spec: SandboxSpec): Pool =>
    createPool({
      settings: settings ?? defaultPools,
      timing,
      take: (bytes) => (isReserved ? undefined : capacity.take(bytes)),
      bytes: runtime.idleBytes?.(spec) ?? usualBytes,
      open: (signal) => open(runtime, spec, signal),
      makeSpace: (bytes, worth) => {
        isReserved ||= evict(
          (other) => worth > other * worthTwice,
          (freed) => capacity.wouldFit({ count: 1, bytes }, freed),
        )
      },
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
      closed || !canWait(spec) ? open(runtime, spec, signal) : poolFor(runtime, spec).take(signal),
    async close() {
      closed = true
      wakeTimer.stop()
      for (const pool of pools.values()) pool.close()
      pools.clear()
      while (work.size > 0) await Promise.all(work)
    },
  }
}

/** Whether sandboxes of this spec are interchangeable, so that they can be started before a call. */
function canWait({ network, session, deterministic, dial }: SandboxSpec): boolean {
  return network === 'none' && session !== true && deterministic === undefined && dial === undefined
}

/**
 * The pools whose last sandboxes are worth least, once for each sandbox, until ending them suffices; undefined when that is
 * not to be had from those that may go. A sandbox of a pool is worth more the fewer it has.
 */
function leastWorth(
  pools: readonly Pool[],
  mayGo: (worth: number) => boolean,
  suffices: (freed: Size) => boolean,
): readonly Pool[] | undefined {
  const chosen: Pool[] = []
  let freed = nothing
  while (!suffices(freed)) {
    const [least] = pools
      .map((pool) => ({ pool, gone: chosen.filter((one) => one === pool).length }))
      .filter(({ pool, gone }) => pool.waiting > gone)
      .map(({ pool, gone }) => ({ pool, gone, worth: pool.worth(-gone) }))
      .sort((one, other) => one.worth - other.worth)
    if (least === undefined || !mayGo(least.worth)) return undefined
    chosen.push(least.pool)
    freed = { count: freed.count + 1, bytes: freed.bytes + least.pool.bytesOf(least.pool.waiting - least.gone) }
  }
  return chosen
}

/** One timer for all pools, set for the earliest that wants to be tended. */
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
