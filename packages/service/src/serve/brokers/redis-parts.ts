import { type Identity, ToolError } from '@gantry/contract'
import type { CatalogEntry } from '@gantry/core'
import type { GatewayView } from '../../admit/gateway-names.ts'
import { redisSessions } from '../../admit/session-identity.ts'
import type { RedisSettings } from '../../config/broker-settings.ts'
import type { Snapshots } from '../../execute/snapshots.ts'
import type { Bus } from '../../stores/bus.ts'
import type { RedisConnections } from '../../transports/redis/connection.ts'
import { listenConfigUpdates } from '../catalog/config-updates.ts'
import { startCatalogPublishing } from '../catalog/publishing.ts'
import { createStaleness } from '../catalog/staleness.ts'

/** What gateways on Redis share with us: their sessions, our catalog, and that the configuration has changed. */
export interface RedisParts {
  /** Who is behind a session; rejects with UNAUTHENTICATED, or STORE_UNAVAILABLE while Redis is away. */
  session(session: string): Promise<Identity>
  /** Rejects with CATALOG_STALE when the sender saw another tool than the one that would be called, or that is not there. */
  judge(entry: CatalogEntry | undefined, catalogHash: string): Promise<void>
  /** The configuration is another one. */
  changed(): void
  stop(): Promise<void>
}

export interface RedisPartsOptions {
  readonly redis: RedisConnections
  readonly settings: RedisSettings
  readonly snapshots: Snapshots
  readonly view: GatewayView
  readonly bus: Bus
  readonly reload: () => Promise<void>
}

const never = new AbortController().signal

export function startRedisParts({ redis, settings, snapshots, view, bus, reload }: RedisPartsOptions): RedisParts {
  const { tenant, tenants: guilds, permissions, users, requireHash } = settings
  const sessions = redisSessions({ redis, tenant, guilds, permissions, holders: holdersOf(users) })
  const failed = (what: string) => (error: unknown) => {
    bus.emit('upkeep:failed', { what, reason: error instanceof Error ? error.message : String(error) })
  }
  const publishing = startCatalogPublishing({
    ...{ redis, view, failed: failed('catalog') },
    executor: () => snapshots.current.executor,
  })
  const isStale = createStaleness({ redis, own: publishing.written, requireHash })
  const unlisten = listenConfigUpdates(redis, reload, { failed: failed('reload') })
  return {
    session: (session) => sessions.identify(session, never),
    async judge(entry, catalogHash) {
      if (entry === undefined && catalogHash === (await publishing.written(never)).hash) return
      if (entry !== undefined && (await isStale({ catalogHash, tool: entry }, never)) === 'fresh') return
      throw new ToolError('CATALOG_STALE', 'The catalog has changed since the caller saw it; read it again.')
    },
    changed: publishing.changed,
    async stop() {
      await Promise.all([unlisten(), publishing.stop()])
    },
  }
}

/** Permissions by user, as users by permission. */
function holdersOf(users: RedisSettings['users']): { readonly [permission: string]: readonly string[] } {
  const holders: { [permission: string]: string[] } = {}
  for (const [user, permissions] of Object.entries(users)) {
    for (const permission of permissions) holders[permission] = [...(holders[permission] ?? []), user]
  }
  return holders
}
