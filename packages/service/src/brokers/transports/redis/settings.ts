import type { ConnectionOptions } from 'node:tls'
import type { RedisOptions } from 'ioredis'
import { parseRedisUrl, type RedisAddress } from '../../../config/redis-url.ts'

export interface OpenRedisOptions {
  /**
   * `redis://user:password@host:port/database`; `redis+sentinel://user:password@host:port,…/name/database`, where the
   * hosts are sentinels and the name is that of the main server; or `redis+cluster://user:password@host:port,…`.
   * Each with `rediss` over TLS.
   */
  readonly url: string
  /** For `rediss`: whom to trust besides the system's authorities, and who we are. */
  readonly tls?: Pick<ConnectionOptions, 'ca' | 'cert' | 'key'>
  /** Who we are to sentinels; that of the servers when absent. */
  readonly sentinel?: { readonly username?: string | undefined; readonly password?: string | undefined }
  /** How long making a connection may take; 5 seconds when absent. */
  readonly connectMs?: number
  /** How long an answer may take; 5 seconds when absent. */
  readonly commandMs?: number
  /** A server that cannot be reached now is waited for in the background, as one that goes away later is. */
  readonly mayBeAway?: boolean
}

type Settings = Omit<RedisOptions, 'replyMapping'>

/** How long making a connection may take, and an answer. */
export const usualConnectMs = 5_000
export const usualCommandMs = 5_000
const firstPauseMs = 50
const longestPauseMs = 5_000

/**
 * How a connection behaves: a command that cannot be sent now, or whose connection ends, fails instead of waiting in a
 * queue without end; the connection is made again after a pause that grows, and never given up.
 */
export function redisSettings(options: OpenRedisOptions): Settings {
  const address = parseRedisUrl(options.url)
  const { hosts, database, name } = address
  const [first] = hosts
  const db = { db: database }
  if (address.kind !== 'sentinel') return { ...behaviour(options), ...accessOf(address, options), ...first, ...db }
  const { username = address.username, password = address.password } = options.sentinel ?? {}
  return {
    ...{ ...behaviour(options), ...accessOf(address, options), ...db, name, sentinels: [...hosts] },
    ...(username === '' ? {} : { sentinelUsername: username }),
    ...(password === '' ? {} : { sentinelPassword: password }),
    ...(address.secure ? { enableTLSForSentinelMode: true, sentinelTLS: { ...options.tls } } : {}),
    sentinelCommandTimeout: options.commandMs ?? usualCommandMs,
    sentinelRetryStrategy: pauseAfter,
  }
}

/** The same for a cluster: a command whose connection ends is not sent again, because it may have been done. */
export function clusterSettings(options: OpenRedisOptions) {
  const address = parseRedisUrl(options.url)
  return {
    nodes: [...address.hosts],
    settings: {
      redisOptions: { ...behaviour(options), ...accessOf(address, options) },
      ...{ lazyConnect: true, enableOfflineQueue: false, retryDelayOnFailover: 0, scaleReads: 'master' as const },
      clusterRetryStrategy: pauseAfter,
      slotsRefreshTimeout: options.commandMs ?? usualCommandMs,
      // A server is known by its name in its certificate, so that the name must not become an address on the way.
      dnsLookup: (host: string, found: (error: null, address: string) => void) => found(null, host),
    },
  }
}

function behaviour({ connectMs = usualConnectMs, commandMs = usualCommandMs }: OpenRedisOptions) {
  return {
    ...{ lazyConnect: true, protocol: 2 as const, connectionName: 'gantry', disableClientInfo: true },
    ...{ enableOfflineQueue: false, autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0 },
    autoResubscribe: false,
    connectTimeout: connectMs,
    commandTimeout: commandMs,
    // A server that is silent for that long is given up, and what was sent to it is not kept.
    socketTimeout: commandMs,
    keepAlive: 10_000,
    retryStrategy: pauseAfter,
    // The one that was the main server no longer is: its name leads to another one now.
    reconnectOnError: ({ message }: Error) => message.startsWith('READONLY'),
  }
}

function pauseAfter(times: number): number {
  return Math.min(firstPauseMs * 2 ** times, longestPauseMs) * (0.5 + Math.random() / 2)
}

function accessOf({ username, password, secure }: RedisAddress, { tls }: OpenRedisOptions) {
  return {
    ...(username === '' ? {} : { username }),
    ...(password === '' ? {} : { password }),
    ...(secure ? { tls: { ...tls } } : {}),
  }
}
