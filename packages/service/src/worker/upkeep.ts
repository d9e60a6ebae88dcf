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
  /** After the database was away, so long nobody's lease is taken: outcomes that wait on disk come first. */
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

  const look = async (all: boolean): Promise<number | undefined> => {
    const { lost, promoted, nextMs } = await store.reclaim({ max: atOnce, all })
    if (lost.length > 0) bus.emit('lease:reclaimed', { calls: lost.length })
    if (lost.length + promoted > 0) wake()
    return nextMs
  }
  const tick = async (): Promise<void> => {
    let nextMs: number | undefined
    try {
      await drain()
      // An exclusive store has no other holders: a lease that seems to have run out is one of our own.
      if (now() >= quietUntil) nextMs = await look(false)
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
      if (exclusive) while ((await look(true)) === 0);
    },
    start: () => schedule(everyMs),
    async stop() {
      stopped = true
      clearTimeout(timer)
      await running
    },
  }
}
