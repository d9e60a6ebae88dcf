import type { Bus } from '../observe/bus.ts'
import type { CallStore } from '../storage/calls/call-store.ts'

export interface UpkeepOptions {
  readonly store: CallStore
  /** Hands over outcomes that wait on disk; rejects while the database is away. */
  readonly drain: () => Promise<void>
  /** Says that there may be calls to claim. */
  readonly wake: () => void
  readonly bus: Bus
  readonly everyMs: number
  /**
   * For so long after a failure or a silence no lease is taken: holders renew theirs and outcomes in the spools come
   * first. Delays, sleeps and deadlines are looked after all the same. Without effect when `exclusive`: then no other
   * process can have outcomes.
   */
  readonly quietMs: number
  /**
   * The store was silent when it answers so long after its answer before, by its own clock; more than `everyMs`, and less
   * than a holder has left to renew its lease.
   */
  readonly silentMs: number
  /** Nobody else can hold a lease, so those that are left at the start belong to the dead. */
  readonly exclusive: boolean
  /** Of tools that calls wait for, as `needs` of the store, those that this worker has and will claim calls of; absent, none. */
  readonly has?: (wanted: readonly string[]) => Promise<readonly string[]>
  readonly now: () => number
}

/** Looks after the queue from time to time: outcomes on disk, leases that ran out, delays and deadlines that passed. */
export interface Upkeep {
  /** Before the first claim: what a dead process left. Rejects as the store does. */
  begin(): Promise<void>
  start(): void
  /** Looks soon, because something was said to be there to look after. */
  nudge(): void
  stop(): Promise<void>
}

const atOnce = 500

/** How soon it looks after a nudge; several nudges in this time count as one. */
const nudgeMs = 20

export function createUpkeep(options: UpkeepOptions): Upkeep {
  const { store, drain, wake, bus, everyMs, quietMs, silentMs, exclusive, has = async () => [], now } = options
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> | undefined
  let quietUntil = 0
  let stopped = false
  let dueAt = 0
  let nudged = false
  /** When the store answered last, in its own time. */
  let seen: number | undefined

  const look = async (leases: 'expired' | 'all' | 'none'): Promise<number | undefined> => {
    const known = seen !== undefined
    // Decided by the store when it acts: a reclaim that hung while the database stood still finds every lease run out.
    const guard = exclusive ? {} : { notAfter: (seen ?? 0) + silentMs }
    const { lost, promoted, nextMs, wanted = [], at } = await store.reclaim({ max: atOnce, leases, ...guard })
    if (at !== undefined && guard.notAfter !== undefined && at > guard.notAfter && known) quietUntil = now() + quietMs
    seen = at
    if (lost.length > 0) bus.emit('lease:reclaimed', { calls: lost.length })
    const here = await has(wanted)
    const offered = here.length === 0 ? 0 : await store.offer(here, atOnce)
    // Calls that others have offered can be claimed here, too.
    if (lost.length + promoted + here.length > 0) wake()
    // The first answer only tells the time of the store.
    if (offered === atOnce || (at !== undefined && !known)) return 0
    return nextMs
  }
  const tick = async (): Promise<void> => {
    let nextMs: number | undefined
    try {
      await drain()
      nextMs = await look(exclusive || now() >= quietUntil ? 'expired' : 'none')
    } catch {
      quietUntil = now() + quietMs
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
      // While it looks, it may have looked too early: it looks once more after that.
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
