import { setTimeout } from 'node:timers/promises'
import { createWakeSignal } from '../../storage/wake-signal.ts'
import {
  type CatalogRedis,
  keepCatalog,
  type Published,
  type PublishOptions,
  publishCatalog,
} from './catalog-publisher.ts'
import type { GatewayView, Listing } from './gateway-names.ts'
import { untilAborted } from './until-aborted.ts'
import { type WriteOptions, type WrittenCatalog, writeCatalog } from './write-catalog.ts'

export interface PublishingOptions extends PublishOptions, WriteOptions {
  readonly redis: CatalogRedis
  /** The executor of the present configuration. */
  readonly executor: () => Listing
  readonly view: GatewayView
  /** Hears of every version that this process made, with the ids of tools that were too large for it. */
  readonly published?: (published: Published & Pick<WrittenCatalog, 'hash' | 'leftOut'>) => void
  /** Hears why it could not be published; it is tried again. */
  readonly failed: (error: unknown) => void
  readonly times?: Partial<PublishingTimes>
}

export interface PublishingTimes {
  /** How often it is kept from being forgotten. */
  readonly keepEveryMs: number
  /** From a change to its publication; twice as long each time while changes go on. */
  readonly firstPauseMs: number
  readonly longestPauseMs: number
  /** For how long backends are waited for that have not told of their tools yet. */
  readonly readyMs: number
}

/** Keeps the catalog in Redis what the tools are. */
export interface CatalogPublishing {
  /** The catalog that was written last; waits for the first one. Rejects with CANCELLED when the signal aborts. */
  written(signal: AbortSignal): Promise<WrittenCatalog>
  /** Says that the configuration is another one, or its permissions are. */
  changed(): void
  /** Ends it; what is published stays. */
  stop(): Promise<void>
}

const usualTimes: PublishingTimes = { keepEveryMs: 5_000, firstPauseMs: 500, longestPauseMs: 30_000, readyMs: 10_000 }

/**
 * Publishes the catalog, and again whenever it changes. Nobody waits for it.
 *
 * It *writes* the catalog, which needs no Redis. Then it *publishes* it; while Redis is away it tries again after pauses
 * that grow. Then it *keeps* it, looking from time to time whether it must be published again. A change leads back to
 * writing, after a pause in which more of them can come; as long as they go on, the pause grows, so that a backend whose
 * tools are others every second does not fill Redis.
 */
export function startCatalogPublishing(options: PublishingOptions): CatalogPublishing {
  const { redis, view, executor, failed } = options
  const times = { ...usualTimes, ...options.times }
  const life = new AbortController()
  const wakeSignal = createWakeSignal()
  const first = Promise.withResolvers<WrittenCatalog>()
  const heard = new WeakSet<Listing>()
  let latest: WrittenCatalog | undefined
  let changed = true
  let due = true
  let wroteAt = Number.NEGATIVE_INFINITY

  const change = (): void => {
    changed = true
    wakeSignal.ring()
  }
  const hear = (source: Listing): void => {
    if (heard.has(source)) return
    heard.add(source)
    source.catalog.subscribe(() => {
      if (source === executor()) change()
    })
  }
  const askBackends = async (source: Listing): Promise<void> => {
    const time = AbortSignal.timeout(times.readyMs)
    await source.ready({ signal: AbortSignal.any([life.signal, time]) }).catch(() => undefined)
  }
  const write = async (): Promise<void> => {
    const source = executor()
    hear(source)
    await askBackends(source)
    changed = false
    latest = await writeCatalog(source, view, life.signal, options).catch((error: unknown) => {
      changed = true
      throw error
    })
    due = true
    wroteAt = performance.now()
    first.resolve(latest)
  }
  const publish = async (written: WrittenCatalog): Promise<void> => {
    due = due || !(await keepCatalog(redis, written, options))
    if (!due) return
    const published = await publishCatalog(redis, written, options)
    due = false
    if (published.fresh) options.published?.({ ...published, hash: written.hash, leftOut: written.leftOut })
  }
  const step = async (): Promise<void> => {
    if (changed) await write()
    else await askBackends(executor())
    if (latest !== undefined) await publish(latest)
  }
  const run = async (): Promise<void> => {
    const [settling, failing] = [growing(times), growing(times)]
    while (!life.signal.aborted) {
      try {
        await step()
        failing.reset()
        if (!changed) await wakeSignal.wait(times.keepEveryMs, life.signal)
      } catch (error) {
        if (!life.signal.aborted) failed(error)
        await wakeSignal.wait(failing.next(), life.signal)
      }
      if (!changed) continue
      if (performance.now() - wroteAt > times.keepEveryMs) settling.reset()
      await setTimeout(settling.next(), undefined, life).catch(() => undefined)
    }
  }
  const running = run()
  return {
    async written(signal) {
      return latest ?? untilAborted(first.promise, AbortSignal.any([signal, life.signal]))
    },
    changed: change,
    async stop() {
      life.abort()
      await running
    },
  }
}

/** A pause that is twice as long each time. */
function growing({ firstPauseMs, longestPauseMs }: PublishingTimes): { next(): number; reset(): void } {
  let ms = firstPauseMs
  return {
    next() {
      const pause = ms
      ms = Math.min(ms * 2, longestPauseMs)
      return pause
    },
    reset() {
      ms = firstPauseMs
    },
  }
}
