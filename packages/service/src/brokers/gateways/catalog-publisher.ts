import { setTimeout } from 'node:timers/promises'
import { unlessAborted } from '@gantry/core/internal/resilience/abort'
import { createWakeSignal } from '../../storage/wake-signal.ts'
import type { RedisConnections } from '../transports/redis/connection.ts'
import { abortedWait, listOf, numberOf, textOf } from '../transports/redis/reply.ts'
import type { GatewayView, Listing } from './gateway-names.ts'
import { type WriteOptions, type WrittenCatalog, writeCatalog } from './write-catalog.ts'

export type CatalogRedis = Pick<RedisConnections, 'call' | 'cluster'>

export interface PublishOptions {
  /** The prefix of the keys; `sg:tools:catalog` when absent. */
  readonly prefix?: string
  /** `sg:pubsub:tools:catalog` when absent. */
  readonly channel?: string
  /**
   * The time after which versions and digests of a catalog expire once its last publisher has stopped; an hour when absent.
   */
  readonly keepMs?: number
}

/** The result of publishing: a new version, or the existing one. */
export interface Published {
  readonly version: number
  readonly fresh: boolean
}

const usualPrefix = 'sg:tools:catalog'
const usualChannel = 'sg:pubsub:tools:catalog'
const hour = 3_600_000
const fieldsAtOnce = 500
/** The most former versions that are kept, however often the tools change. */
const versionsKept = 16
/** A process that serves a catalog renews its mark several times within this time. */
const aliveMs = 20_000

/** The key of a catalog's digests, by `namespace:name`. */
export function digestsKey(hash: string, prefix = usualPrefix): string {
  return `${prefix}:hash:${hash}`
}

/**
 * Compares, moves the pointer and notifies atomically, so that processes that publish the same catalog concurrently
 * make one version of it. `state` holds the version whose content is known; a pointer that another program moved does
 * not match it and counts as another catalog. The former version expires, and only the last few are kept.
 */
const moveScript = `
local current = redis.call('GET', KEYS[2])
if current and redis.call('GET', KEYS[3]) == current .. ' ' .. ARGV[1]
  and redis.call('EXISTS', ARGV[4] .. current) == 1 then
  return { tonumber(current), 0 }
end
local seq = redis.call('INCR', KEYS[1])
redis.call('SET', ARGV[4] .. seq, ARGV[3])
redis.call('SET', KEYS[2], seq)
redis.call('SET', KEYS[3], seq .. ' ' .. ARGV[1])
if current and string.match(current, '^%d+$') then redis.call('PEXPIRE', ARGV[4] .. current, ARGV[5]) end
redis.call('DEL', ARGV[4] .. (seq - ARGV[7]))
redis.call('PUBLISH', ARGV[6], '{"version": ' .. seq .. ', "schema_hash": "' .. ARGV[2] .. '"}')
return { seq, 1 }
`

/**
 * Whether the current version exists and a live process serves it. The script also renews the mark and the digests of
 * the caller's own catalog.
 */
const keepScript = `
local own = redis.call('PEXPIRE', KEYS[3], ARGV[2])
redis.call('SET', KEYS[4], 1, 'PX', ARGV[4])
local current = redis.call('GET', KEYS[1])
local state = redis.call('GET', KEYS[2])
if not current or not state or redis.call('EXISTS', ARGV[1] .. current) == 0 then return { own, 0 } end
local seq, fingerprint, hash = string.match(state, '^(%d+) (%x+):(%x+)$')
if seq ~= current then return { own, 1 } end
return { own, redis.call('EXISTS', ARGV[3] .. hash .. ':alive') }
`

/**
 * Makes a catalog the current one, unless it is already, and notifies the gateways with `{"version", "schema_hash"}` as
 * JSON on the channel. Digests are written before the hash becomes visible.
 * - Concurrency: any number of processes, with the same catalog or others; the last one wins.
 * - Errors: STORE_UNAVAILABLE; a repeated call completes the work.
 */
export async function publishCatalog(
  redis: CatalogRedis,
  written: WrittenCatalog,
  options: PublishOptions = {},
): Promise<Published> {
  const { prefix = usualPrefix, channel = usualChannel, keepMs = hour } = options
  const own = digestsKey(written.hash, prefix)
  await keepDigests(redis, written, own, keepMs)
  await redis.call(['SET', `${own}:alive`, 1, 'PX', Math.min(aliveMs, keepMs)])
  const keys = [`${prefix}:seq`, `${prefix}:current`, `${prefix}:state`]
  const content = Buffer.from(written.bytes.buffer, written.bytes.byteOffset, written.bytes.byteLength)
  const state = `${written.fingerprint}:${written.hash}`
  const parameters = [state, written.hash, content, `${prefix}:v`, keepMs, channel, versionsKept]
  if (redis.cluster) return movePointer(redis, { state, hash: written.hash, content, prefix, keepMs, channel })
  const [version, fresh] = listOf(await redis.call(['EVAL', moveScript, keys.length, ...keys, ...parameters]))
  return { version: numberOf(version) ?? 0, fresh: numberOf(fresh) === 1 }
}

/**
 * Renews a catalog while a process serves it. False when it must be published again: Redis lost it, or no live process
 * serves the current one.
 */
export async function keepCatalog(
  redis: CatalogRedis,
  written: WrittenCatalog,
  { prefix = usualPrefix, keepMs = hour }: PublishOptions = {},
): Promise<boolean> {
  const own = digestsKey(written.hash, prefix)
  const keys = [`${prefix}:current`, `${prefix}:state`, own, `${own}:alive`]
  const parameters = [`${prefix}:v`, keepMs, digestsKey('', prefix), Math.min(aliveMs, keepMs)]
  const asked = redis.cluster
    ? await keepPointer(redis, own, prefix, keepMs)
    : await redis.call(['EVAL', keepScript, keys.length, ...keys, ...parameters])
  const [kept, alive] = listOf(asked)
  // A process that was suspended for too long writes its digests again and leaves the pointer unchanged.
  if (numberOf(kept) === 0) await keepDigests(redis, written, own, keepMs)
  return numberOf(alive) === 1
}

/** Whether the hash is that of the current catalog, of any publisher. */
export async function isCurrent(redis: CatalogRedis, hash: string, prefix = usualPrefix): Promise<boolean> {
  const state = textOf(await redis.call(['GET', `${prefix}:state`]))
  return /^[0-9a-f]{64}$/.test(hash) && state.endsWith(`:${hash}`)
}

/** An empty catalog has a hash as well, and a key without fields would not exist. */
async function keepDigests(
  redis: CatalogRedis,
  { digests }: WrittenCatalog,
  key: string,
  keepMs: number,
): Promise<void> {
  const fields = ['', '', ...[...digests].flat()]
  for (let from = 0; from < fields.length; from += 2 * fieldsAtOnce) {
    await redis.call(['HSET', key, ...fields.slice(from, from + 2 * fieldsAtOnce)])
    if (from === 0) await redis.call(['PEXPIRE', key, keepMs])
  }
}

interface Moved {
  readonly state: string
  readonly hash: string
  readonly content: Buffer
  readonly prefix: string
  readonly keepMs: number
  readonly channel: string
}

/**
 * `moveScript` as single commands, for a cluster, whose servers share the keys that gateways know by name. Processes
 * that publish the same catalog concurrently may then make two versions of it, of which the last one wins.
 */
async function movePointer(redis: CatalogRedis, moved: Moved): Promise<Published> {
  const { prefix, keepMs, state, content, hash, channel } = moved
  const version = (number: string | number): string => `${prefix}:v${number}`
  const [current, known] = await Promise.all([textAt(redis, `${prefix}:current`), textAt(redis, `${prefix}:state`)])
  const isThere = current !== '' && known === `${current} ${state}` && (await exists(redis, version(current)))
  if (isThere) return { version: Number(current), fresh: false }
  const number = numberOf(await redis.call(['INCR', `${prefix}:seq`])) ?? 0
  await redis.call(['SET', version(number), content])
  await redis.call(['SET', `${prefix}:current`, number])
  await redis.call(['SET', `${prefix}:state`, `${number} ${state}`])
  if (/^\d+$/.test(current)) await redis.call(['PEXPIRE', version(current), keepMs])
  await redis.call(['DEL', version(number - versionsKept)])
  await redis.call(['PUBLISH', channel, `{"version": ${number}, "schema_hash": "${hash}"}`])
  return { version: number, fresh: true }
}

/** `keepScript` as single commands. */
async function keepPointer(redis: CatalogRedis, own: string, prefix: string, keepMs: number): Promise<number[]> {
  const kept = numberOf(await redis.call(['PEXPIRE', own, keepMs])) ?? 0
  await redis.call(['SET', `${own}:alive`, 1, 'PX', Math.min(aliveMs, keepMs)])
  const [current, state] = await Promise.all([textAt(redis, `${prefix}:current`), textAt(redis, `${prefix}:state`)])
  if (current === '' || state === '' || !(await exists(redis, `${prefix}:v${current}`))) return [kept, 0]
  const [, number, hash = ''] = /^(\d+) [0-9a-f]+:([0-9a-f]+)$/.exec(state) ?? []
  if (number !== current) return [kept, 1]
  return [kept, (await exists(redis, `${digestsKey(hash, prefix)}:alive`)) ? 1 : 0]
}

async function textAt(redis: CatalogRedis, key: string): Promise<string> {
  return textOf((await redis.call(['GET', key])) ?? undefined)
}

async function exists(redis: CatalogRedis, key: string): Promise<boolean> {
  return (await redis.call(['EXISTS', key])) === 1
}

export interface PublishingOptions extends PublishOptions, WriteOptions {
  readonly redis: CatalogRedis
  /** The executor of the current configuration. */
  readonly executor: () => Listing
  readonly view: GatewayView
  /** Receives every version that this process made, with the ids of tools that were too large for it. */
  readonly published?: (published: Published & Pick<WrittenCatalog, 'hash' | 'leftOut'>) => void
  /** Receives the reason when publishing failed; it is retried. */
  readonly failed: (error: unknown) => void
  readonly times?: Partial<PublishingTimes>
}

interface PublishingTimes {
  /** The interval of renewals. */
  readonly keepEveryMs: number
  /** The delay from a change to its publication; doubled each time while changes continue. */
  readonly firstPauseMs: number
  readonly longestPauseMs: number
  /** The longest wait for backends that have not listed their tools yet. */
  readonly readyMs: number
}

/** Keeps the published catalog equal to the tools of the executor. */
interface CatalogPublishing {
  /** The catalog that was written last; waits for the first one. Rejects with CANCELLED when the signal aborts. */
  written(signal: AbortSignal): Promise<WrittenCatalog>
  /** Call when the configuration or its permissions changed. */
  changed(): void
  /** Stops publishing; the published catalog stays. */
  stop(): Promise<void>
}

const usualTimes: PublishingTimes = { keepEveryMs: 5_000, firstPauseMs: 500, longestPauseMs: 30_000, readyMs: 10_000 }

/**
 * Publishes the catalog, and again whenever it changes, in the background.
 *
 * ## States
 * - `writing`: the catalog is written from the tools of the executor; this needs no Redis.
 * - `publishing`: the written catalog is sent to Redis.
 * - `keeping`: the published catalog is kept from expiring.
 *
 * ## Transitions
 * - `writing` → `publishing`: the catalog is written.
 * - `publishing` → `publishing`: Redis is unavailable; retried after pauses that grow.
 * - `publishing` → `keeping`: Redis has the catalog.
 * - `keeping` → `publishing`: Redis lost the catalog, or no live process has published the current one.
 * - any → `writing`: the tools or the configuration changed. A pause collects further changes, and it grows while they
 *   continue, so that a backend whose tools change every second does not fill Redis.
 */
export function startCatalogPublishing(options: PublishingOptions): CatalogPublishing {
  const { redis, view, executor, failed } = options
  const times = { ...usualTimes, ...options.times }
  const life = new AbortController()
  const wakeSignal = createWakeSignal()
  const first = Promise.withResolvers<WrittenCatalog>()
  const followed = new WeakSet<Listing>()
  let latest: WrittenCatalog | undefined
  let changed = true
  let due = true
  let wroteAt = Number.NEGATIVE_INFINITY

  const change = (): void => {
    changed = true
    wakeSignal.ring()
  }
  const follow = (source: Listing): void => {
    if (followed.has(source)) return
    followed.add(source)
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
    follow(source)
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
      return latest ?? unlessAborted(first.promise, AbortSignal.any([signal, life.signal]), abortedWait)
    },
    changed: change,
    async stop() {
      life.abort()
      await running
    },
  }
}

/** A pause that doubles each time. */
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
