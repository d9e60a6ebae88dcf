import { ToolError } from '@gantry/contract'
import type { Executor } from '@gantry/core'
import type { Bus } from '../observe/bus.ts'
import { needLabel, readNeed } from '../storage/calls/call-facts.ts'
import type { CallStore } from '../storage/calls/call-store.ts'

export interface UpkeepOptions {
  readonly store: CallStore
  /** Records the spooled outcomes; rejects while the database or the spool is unavailable. */
  readonly drain: () => Promise<void>
  /** Wakes the worker, because there may be calls to claim. */
  readonly wake: () => void
  readonly bus: Bus
  readonly everyMs: number
  /**
   * For so long after a failure, or while the store was unresponsive, no lease is reclaimed: holders renew theirs and spooled outcomes are
   * recorded first. Delays, sleeps and deadlines are handled all the same. Without effect when `exclusive`: then no
   * other process can have outcomes.
   */
  readonly quietMs: number
  /**
   * The store was unresponsive when this time lies between two of its answers, by its own clock; more than `everyMs`, and
   * less than a holder has left to renew its lease.
   */
  readonly unresponsiveMs: number
  /** No other process can hold a lease, so the leases at the start belong to a process that died. */
  readonly exclusive: boolean
  /**
   * Of the tools that calls wait for, as `needs` of the store, those that this worker has and will claim calls of;
   * absent, none.
   */
  readonly has?: (wanted: readonly string[]) => Promise<readonly string[]>
  readonly now: () => number
}

/** Maintains the queue periodically: outcomes on disk, expired leases, and passed delays and deadlines. */
export interface Upkeep {
  /** Runs before the first claim: reclaims what a dead process left. Rejects as the store does. */
  begin(): Promise<void>
  start(): void
  /** Runs soon, because a notification arrived. */
  nudge(): void
  stop(): Promise<void>
}

const atOnce = 500
const spooled = 'spooled outcomes'
const queue = 'queue'

/** How long a tick waits for the spool before it looks after delays, sleeps and deadlines without it. */
const drainMs = 5_000

/** The delay after a nudge; several nudges in this time count as one. */
const nudgeMs = 20

export function createUpkeep(options: UpkeepOptions): Upkeep {
  const { store, drain, wake, bus, everyMs, quietMs, unresponsiveMs, exclusive, has = async () => [], now } = options
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> | undefined
  let quietUntil = 0
  let stopped = false
  let dueAt = 0
  let nudged = false
  let draining: Promise<boolean> | undefined
  /** The parts that failed at their last attempt, so that each failure is logged once. */
  const failing = new Set<string>()
  /** The store's clock at its last answer. */
  let seen: number | undefined

  const look = async (leases: 'expired' | 'all' | 'none'): Promise<number | undefined> => {
    const known = seen !== undefined
    // The store checks this limit when it executes: a reclaim that hung with the database finds every lease expired.
    const guard = exclusive ? {} : { notAfter: (seen ?? 0) + unresponsiveMs }
    const { lost, promoted, nextMs, wanted = [], at } = await store.reclaim({ max: atOnce, leases, ...guard })
    if (at !== undefined && guard.notAfter !== undefined && at > guard.notAfter && known) quietUntil = now() + quietMs
    seen = at
    if (lost.length > 0) bus.emit('lease:reclaimed', { calls: lost.length })
    const here = await has(wanted)
    const offered = here.length === 0 ? 0 : await store.offer(here, atOnce)
    // Calls that others have offered can be claimed here, too.
    if (lost.length + promoted + here.length > 0) wake()
    // The first answer only gives the store's clock.
    if (offered === atOnce || (at !== undefined && !known)) return 0
    return nextMs
  }
  /** A dependency that is unavailable is reported by its operations and probes, and any other failure once here. */
  const failed = (what: string, error: unknown): void => {
    quietUntil = now() + quietMs
    if (failing.has(what) || (ToolError.is(error) && error.code === 'STORE_UNAVAILABLE')) return
    failing.add(what)
    bus.emit('upkeep:failed', { what, reason: error instanceof Error ? error.message : String(error) })
  }
  /** Resolves with whether all spooled outcomes are recorded; a drain that takes long continues during the next ticks. */
  const drained = async (): Promise<boolean> => {
    if (draining !== undefined) return false
    let timeout: NodeJS.Timeout | undefined
    const late = new Promise<boolean>((resolve) => {
      timeout = setTimeout(resolve, drainMs, false)
    })
    const done = drain()
      .then(
        () => {
          failing.delete(spooled)
          return true
        },
        (error: unknown) => {
          failed(spooled, error)
          return false
        },
      )
      .finally(() => {
        draining = undefined
      })
    draining = done
    try {
      return await Promise.race([done, late])
    } finally {
      clearTimeout(timeout)
    }
  }
  const tick = async (): Promise<void> => {
    let nextMs: number | undefined
    const isDrained = await drained()
    try {
      // The spool may have the outcome of a call whose lease expired: reclaimed, the call would run again. Delays,
      // sleeps and deadlines do not depend on the spool.
      nextMs = await look(isDrained && (exclusive || now() >= quietUntil) ? 'expired' : 'none')
      failing.delete(queue)
    } catch (error) {
      failed(queue, error)
    }
    if (!stopped) schedule(Math.max(5, Math.min(nudged ? nudgeMs : everyMs, nextMs ?? everyMs)))
    nudged = false
  }
  const schedule = (ms: number): void => {
    dueAt = performance.now() + ms
    timer = setTimeout(() => {
      timer = undefined
      running = tick()
    }, ms)
  }
  return {
    async begin() {
      await drain()
      if (exclusive) while ((await look('all')) === 0);
    },
    start: () => schedule(everyMs),
    nudge() {
      // A run in progress may have been too early for the nudge: it runs once more after that.
      nudged = running !== undefined && timer === undefined
      if (timer === undefined || stopped || dueAt - performance.now() <= nudgeMs) return
      clearTimeout(timer)
      schedule(nudgeMs)
    },
    async stop() {
      stopped = true
      clearTimeout(timer)
      await running
    },
  }
}

/** The tools of this worker among those that calls wait for. */
export interface ToolOffers {
  /** The labels under which calls that need them can be claimed. */
  readonly labels: { readonly [label: string]: string }
  /** The needs that this worker can meet now; sets its labels to them. */
  look(wanted: readonly string[]): Promise<readonly string[]>
}

/** A worker of a fleet with the same tools everywhere is never queried, and has no labels. */
export function createToolOffers(snapshots: {
  readonly current: { readonly executor: Pick<Executor, 'missing'> }
}): ToolOffers {
  let labels: ToolOffers['labels'] = {}
  return {
    get labels() {
      return labels
    },
    async look(wanted) {
      const lacks = await Promise.all(
        wanted.map(async (need) => {
          const { tool, digest } = readNeed(need)
          return snapshots.current.executor.missing(tool, digest)
        }),
      )
      const here = wanted.filter((_, index) => lacks[index] === undefined)
      labels = Object.fromEntries(here.map((need) => [needLabel(need), '']))
      return here
    },
  }
}
