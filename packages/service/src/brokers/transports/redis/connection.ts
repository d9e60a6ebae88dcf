import type { ConnectionOptions } from 'node:tls'
import { ToolError } from '@gantry/contract'
import type { Cluster, Redis, RedisOptions } from 'ioredis'
import { parseRedisUrl, type RedisAddress } from '../../../config/redis-url.ts'
import {
  call,
  connectWithin,
  createSubscriber,
  end,
  type Hear,
  pipeline,
  type WaitingConnection,
  waitingConnection,
} from './client.ts'
import { type Command, fieldsOf, type Reply, redisError, textOf } from './reply.ts'

/**
 * A Redis server. Connections that end are made again by themselves; until then commands fail at once.
 * - Concurrency: any number of commands at once, sent one behind the other without waiting for answers.
 * - Errors: STORE_UNAVAILABLE, see `redisError`. No failure is an event, and none shows the password.
 * - Ownership: whoever opened it closes it, after those who use it have closed what they made of it.
 */
export interface RedisConnections {
  /** Keys are spread over several servers: a script may only touch keys of one slot, see `besideKey`. */
  readonly cluster: boolean
  call(command: Command): Promise<Reply>
  /** Several in one round trip; answers in order, each with its own failure. Never rejects. */
  pipeline(commands: readonly Command[]): Promise<readonly (Reply | ToolError)[]>
  /** A connection of its own for commands that wait at the server, up to so long. */
  waiting(longestMs: number): WaitingConnection
  /**
   * Hears what is published on a channel; `undefined` says that something may have been missed. Resolves with the way
   * to stop, which never rejects.
   */
  subscribe(channel: string, hear: Hear): Promise<() => Promise<void>>
  close(): Promise<void>
}

/** The first with XAUTOCLAIM and XTRIM MINID. */
const oldest = [6, 2] as const

/**
 * Connects to a Redis server.
 * Rejects with CONFIG_INVALID for a wrong URL, a wrong password or a server that is too old, and with
 * STORE_UNAVAILABLE when it cannot be reached now, unless it may be away; then its version is not looked at.
 */
export async function openRedis(options: OpenRedisOptions): Promise<RedisConnections> {
  const open = await clientsOf(options)
  const client = open()
  const connectMs = 2 * (options.connectMs ?? usualConnectMs)
  try {
    await connect(client, connectMs)
    checkVersion(await call(client, ['HELLO']).catch(withoutHello))
  } catch (error) {
    const away = ToolError.is(error) && error.code === 'STORE_UNAVAILABLE'
    if (!away || options.mayBeAway !== true) {
      await end(client)
      throw error
    }
  }
  const subscriber = createSubscriber(() => open(), connectMs)
  return {
    cluster: client.isCluster,
    call: (command) => call(client, command),
    pipeline: (commands) => pipeline(client, commands),
    waiting: (longestMs) => waitingConnection(open(longestMs), connectMs),
    subscribe: subscriber.subscribe,
    async close() {
      await Promise.all([end(client), subscriber.close()])
    },
  }
}

/** Makes clients that do not connect by themselves; `longerMs` is how much longer one waits for answers. */
async function clientsOf(options: OpenRedisOptions): Promise<(longerMs?: number) => Redis | Cluster> {
  const { kind } = parseRedisUrl(options.url)
  const { Redis, Cluster } = await import('ioredis')
  return (longerMs = 0) => {
    const how = { ...options, commandMs: (options.commandMs ?? usualCommandMs) + longerMs }
    if (kind !== 'cluster') return new Redis(redisSettings(how))
    const { nodes, settings } = clusterSettings(how)
    return new Cluster(nodes, settings)
  }
}

/** Resolves when it can be used; the first reason why it cannot is what the rejection says. */
async function connect(client: Redis | Cluster, connectMs: number): Promise<void> {
  let reason: unknown
  // Somebody has to listen: an error that nobody hears would be printed, and a later one is told by the commands.
  client.on('error', (error) => {
    reason ??= error
  })
  try {
    await connectWithin(client, connectMs)
  } catch (error) {
    throw connectError(reason ?? error)
  }
}

function connectError(reason: unknown): ToolError {
  const error = redisError(reason)
  const { cause } = error
  const isRefused = ['WRONGPASS', 'NOAUTH', 'NOPERM'].includes(String(error.details?.reply))
  return isRefused
    ? new ToolError('CONFIG_INVALID', 'Redis refuses the user or the password of its address.', { cause })
    : new ToolError('STORE_UNAVAILABLE', awayWords(reason), { cause })
}

/** Node names what is wrong with a certificate by words of OpenSSL, or its own. */
function awayWords(reason: unknown): string {
  const code = reason instanceof Error && 'code' in reason ? String(reason.code) : ''
  if (!/CERT|VERIFY|ISSUER|ALTNAME/.test(code)) return 'Redis cannot be reached.'
  return 'Redis shows a certificate that is not trusted, or not for its host.'
}

/** A server that does not know the command is older than any that would do. */
function withoutHello(error: ToolError): Reply {
  if (error.details?.reply !== 'ERR') throw error
  return null
}

function checkVersion(hello: Reply): void {
  const version = textOf(fieldsOf(hello).get('version'))
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major > oldest[0] || (major === oldest[0] && minor >= oldest[1])) return
  const found = /^[\d.]{1,20}$/.test(version) ? version : 'older than 6'
  throw new ToolError('CONFIG_INVALID', `Redis ${oldest.join('.')} or newer is needed; the server is ${found}.`)
}

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
