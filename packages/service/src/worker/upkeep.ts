import type { Bus } from '../stores/bus.ts'
import type { CallStore } from '../stores/call-store.ts'

export interface UpkeepOptions {
  readonly store: CallStore
  /** Hands over outcomes that wait on disk; rejects while the database is away. */
  readonly drain: () => Promise<void>
  /** Says that there may be calls to claim. */
  readonly wake: () => void
  readonly bus: Bus
  readonly everyMs: number
  /**
   * For so long after a failure no lease is taken: outcomes in the spools come first. Delays, sleeps and deadlines are
   * looked after all the same. Without effect when `exclusive`: then no other process can have outcomes.
   */
  readonly quietMs: number
  /** Nobody else can hold a lease, so those that are left at the start belong to the dead. */
  readonly exclusive: boolean
  readonly now: () => number
}

/** Looks after the queue from time to time: outcomes on disk, leases that ran out, delays and deadlines that passed. */
export interface Upkeep {
  /** Before the first claim: what a dead process left. Rejects as the store does. */
  begin(): Promise<void>
  start(): void
  stop(): Promise<void>
}

const atOnce = 500

export function createUpkeep(options: UpkeepOptions): Upkeep {
  const { store, drain, wake, bus, everyMs, quietMs, exclusive, now } = options
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> | undefined
  let quietUntil = 0
  let stopped = false

  const look = async (leases: 'expired' | 'all' | 'none'): Promise<number | undefined> => {
    const { lost, promoted, nextMs } = await store.reclaim({ max: atOnce, leases })
    if (lost.length > 0) bus.emit('lease:reclaimed', { calls: lost.length })
    if (lost.length + promoted > 0) wake()
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
    if (!stopped) schedule(Math.max(5, Math.min(everyMs, nextMs ?? everyMs)))
  }
  const schedule = (ms: number): void => {
    timer = setTimeout(() => {
      running = tick()
    }, ms)
  }
  return {
    async begin() {
      await drain()
      if (exclusive) while ((await look('all')) === 0);
    },
    start: () => schedule(everyMs),
    async stop() {
      stopped = true
      clearTimeout(timer)
      await running
    },
  }
}
