import { type Identity, ToolError } from '@gantry/contract'
import type { CatalogEntry } from '@gantry/core'
import type { RedisSettings } from '../../config/broker-settings.ts'
import type { Snapshots } from '../../config/snapshots.ts'
import type { Bus } from '../../observe/bus.ts'
import type { RedisConnections } from '../transports/redis/connection.ts'
import { createTextReader } from '../transports/redis/text-reader.ts'
import { isCurrent } from './catalog-publisher.ts'
import { startCatalogPublishing } from './catalog-publishing.ts'
import { createStaleness } from './catalog-staleness.ts'
import { listenConfigUpdates } from './config-updates.ts'
import type { GatewayView } from './gateway-names.ts'
import { holdersOf, redisSessions, type SessionOptions, type Sessions } from './session-identity.ts'

/** What gateways on Redis share with us: their sessions, our catalog, and that the configuration has changed. */
export interface RedisParts {
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

export interface RedisPartsOptions {
  readonly redis: RedisConnections
  /** As the configuration has them now. */
  readonly settings: () => RedisSettings
  readonly snapshots: Snapshots
  readonly view: GatewayView
  readonly bus: Bus
  readonly reload: () => Promise<void>
}

const never = new AbortController().signal

export function startRedisParts({ redis, settings, snapshots, view, bus, reload }: RedisPartsOptions): RedisParts {
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
