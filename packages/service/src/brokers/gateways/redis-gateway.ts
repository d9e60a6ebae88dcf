import { setTimeout } from 'node:timers/promises'
import { type Identity, ToolError } from '@gantry/contract'
import type { CatalogEntry } from '@gantry/core'
import type { RedisSettings } from '../../config/broker-settings.ts'
import type { Snapshots } from '../../config/snapshots.ts'
import type { Bus } from '../../observe/bus.ts'
import type { RedisConnections } from '../transports/redis/connection.ts'
import { refusalOf, textOf } from '../transports/redis/reply.ts'
import { createTextReader } from '../transports/redis/text-reader.ts'
import { type CatalogRedis, digestsKey, isCurrent } from './catalog-publisher.ts'
import { startCatalogPublishing } from './catalog-publishing.ts'
import type { GatewayView } from './gateway-names.ts'
import { holdersOf, redisSessions, type SessionOptions, type Sessions } from './session-identity.ts'
import { untilAborted } from './until-aborted.ts'
import type { WrittenCatalog } from './write-catalog.ts'

/** What gateways on Redis share with us: their sessions, our catalog, and that the configuration has changed. */
export interface RedisGateway {
  /** Who is behind a session; rejects with UNAUTHENTICATED, or STORE_UNAVAILABLE while Redis is away. */
  session(session: string): Promise<Identity>
  /**
   * Rejects with CATALOG_STALE when the sender saw another tool than the one that would be called, or that is not there.
   * When what he saw is what is published now, another worker has the tool: SERVICE_UNAVAILABLE, for the message to be
   * left to that one.
   */
  judge(entry: CatalogEntry | undefined, catalogHash: string): Promise<void>
  stop(): Promise<void>
}

interface RedisGatewayOptions {
  readonly redis: RedisConnections
  /** As the configuration has them now. */
  readonly settings: () => RedisSettings
  readonly snapshots: Snapshots
  readonly view: GatewayView
  readonly bus: Bus
  readonly reload: () => Promise<void>
}

const never = new AbortController().signal

export function startRedisGateway({
  redis,
  settings,
  snapshots,
  view,
  bus,
  reload,
}: RedisGatewayOptions): RedisGateway {
  const read = createTextReader(redis)
  let known: { readonly settings: RedisSettings; readonly sessions: Sessions } | undefined
  const sessions = (): Sessions => {
    const now = settings()
    if (known?.settings !== now) known = { settings: now, sessions: redisSessions(sessionOptions(read, now)) }
    return known.sessions
  }
  const failed = (what: string) => (error: unknown) => {
    bus.emit('upkeep:failed', { what, reason: error instanceof Error ? error.message : String(error) })
  }
  const { requireHash, catalog, backgroundMs } = settings()
  const publishing = catalog
    ? startCatalogPublishing({
        ...{ redis, view, failed: failed('catalog'), noBackground: backgroundMs === 0 },
        executor: () => snapshots.current.executor,
        usersOf: (tool) => holdersOf(tool, sessionOptions(read, settings())),
      })
    : undefined
  const isStale =
    publishing === undefined ? undefined : createStaleness({ redis, own: publishing.written, requireHash })
  const unfollow = snapshots.onReplace(() => publishing?.changed())
  const unlisten = listenConfigUpdates(redis, reload, { failed: failed('reload') })
  return {
    // Hundreds ask at a time, and each who listens to a signal looks at all who do so already.
    session: (session) => sessions().identify(session, new AbortController().signal),
    async judge(entry, catalogHash) {
      if (publishing === undefined || isStale === undefined) return
      const { hash } = await publishing.written(never)
      // Whoever named no catalog was shown none: a tool that is not there is not there.
      const unnamed = catalogHash === '' && !requireHash
      if (entry === undefined && (unnamed || catalogHash === hash)) return
      if (entry !== undefined && (await isStale({ catalogHash, tool: entry }, never)) === 'fresh') return
      if (catalogHash !== hash && (await isCurrent(redis, catalogHash))) {
        throw new ToolError('SERVICE_UNAVAILABLE', 'The tool as its caller saw it is with another worker.')
      }
      throw new ToolError('CATALOG_STALE', 'The catalog has changed since the caller saw it; read it again.')
    },
    async stop() {
      unfollow()
      await Promise.all([unlisten(), publishing?.stop()])
    },
  }
}

/** Whom the sessions stand for, as the settings say. */
function sessionOptions(read: SessionOptions['read'], settings: RedisSettings): SessionOptions {
  const { tenant, tenants: guilds, permissions, users } = settings
  return { read, tenant, guilds, permissions, holders: byPermission(users) }
}

/** Permissions by user, as users by permission. */
function byPermission(users: RedisSettings['users']): { readonly [permission: string]: readonly string[] } {
  const holders: { [permission: string]: string[] } = {}
  for (const [user, permissions] of Object.entries(users)) {
    for (const permission of permissions) holders[permission] = [...(holders[permission] ?? []), user]
  }
  return holders
}

interface UpdateOptions {
  /** `sys:config:updated` when absent. */
  readonly channel?: string
  /** Hears of a reload that failed, and of a channel that cannot be listened to; both are tried again. */
  readonly failed: (error: unknown) => void
  /** The least time from one reload, or one try to listen, to the next; 1,000 when absent. */
  readonly pauseMs?: number
}

/**
 * Reloads when gateways say that the configuration changed. What a message holds is not looked at, and however many
 * come, one reload runs at a time and one more follows it. What was said while nobody listened is not heard, so that
 * coming back counts as a change; the file itself is looked at by `watchConfig` besides.
 * Answers the function that stops it, which waits for a reload that runs.
 */
export function listenConfigUpdates(
  redis: Pick<RedisConnections, 'subscribe'>,
  reload: () => Promise<void>,
  { channel = 'sys:config:updated', failed, pauseMs = 1_000 }: UpdateOptions,
): () => Promise<void> {
  const life = new AbortController()
  const rest = (): Promise<void> => setTimeout(pauseMs, undefined, life).catch(() => undefined)
  let running: Promise<void> | undefined
  let again = false

  const run = async (): Promise<void> => {
    while (again && !life.signal.aborted) {
      again = false
      await reload().catch(failed)
      await rest()
    }
    running = undefined
  }
  const changed = (): void => {
    again = true
    running ??= run()
  }
  const listen = async (): Promise<(() => Promise<void>) | undefined> => {
    for (let missed = false; !life.signal.aborted; missed = true) {
      try {
        const stop = await redis.subscribe(channel, changed)
        if (missed) changed()
        return stop
      } catch (error) {
        failed(error)
        await rest()
      }
    }
    return undefined
  }
  const listening = listen()
  return async () => {
    life.abort()
    const stop = await listening
    await stop?.()
    await running
  }
}

export interface StalenessOptions {
  readonly redis: CatalogRedis
  /** The catalog that this process wrote last; waits for the first one. */
  readonly own: (signal: AbortSignal) => Promise<Pick<WrittenCatalog, 'hash' | 'digests'>>
  readonly prefix?: string
  /** Whether a request without a hash is stale; it is not when absent. */
  readonly requireHash?: boolean
}

interface Judged {
  /** As the request has it: anything at all. */
  readonly catalogHash: string | undefined
  /** The tool that would be called now. */
  readonly tool: Pick<CatalogEntry, 'key' | 'digest'>
}

/**
 * Whether a request was made with the tool in mind that would be called now.
 * - Errors: STORE_UNAVAILABLE when it cannot be found out; CANCELLED when the signal aborts.
 */
type JudgeStale = (judged: Judged, signal: AbortSignal) => Promise<'fresh' | 'stale'>

const hashForm = /^[0-9a-f]{64}$/
const mostRemembered = 10_000

/**
 * A request is fresh when the catalog that it names has its tool as it is now: the last one of this process, one that was
 * current before, or that of another deploy. One that names an unknown catalog, a tool that is not in it or was
 * another one there, or a version that it does not show is stale. One that names no catalog asks for the tool as it is
 * now: its arguments, its sender and the sender's permissions are checked against that one, so that nothing runs with old ones.
 * Tools may have changed since the last catalog was written, so that its hash alone proves nothing.
 */
export function createStaleness(options: StalenessOptions): JudgeStale {
  const { redis, prefix, requireHash = false } = options
  /** A catalog does not change under its hash, so what was found there stays true. */
  const known = new Map<string, string>()
  const digestUnder = async (hash: string, key: string, signal: AbortSignal): Promise<string> => {
    const name = `${hash} ${key}`
    const remembered = known.get(name)
    if (remembered !== undefined) return remembered
    const asking = redis.call(['HGET', digestsKey(hash, prefix), key])
    const found = await untilAborted(asking, signal).catch((error: unknown) => {
      if (refusalOf(error) === 'WRONGTYPE') return null
      throw error
    })
    if (found === null) return ''
    if (known.size >= mostRemembered) known.clear()
    known.set(name, textOf(found))
    return textOf(found)
  }
  return async ({ catalogHash = '', tool }, signal) => {
    if (catalogHash === '') return requireHash ? 'stale' : 'fresh'
    if (!hashForm.test(catalogHash)) return 'stale'
    const { hash, digests } = await options.own(signal)
    const seen = catalogHash === hash ? digests.get(tool.key) : await digestUnder(catalogHash, tool.key, signal)
    return seen === tool.digest ? 'fresh' : 'stale'
  }
}
