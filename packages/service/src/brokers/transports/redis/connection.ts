import type { ConnectionOptions } from 'node:tls'
import { ToolError } from '@gantry/contract'
import type { Cluster, Redis, RedisOptions } from 'ioredis'
import { parseRedisUrl, type RedisAddress } from '../../../config/broker-settings.ts'
import { type Command, fieldsOf, type Reply, redisError, textOf } from './reply.ts'

/**
 * A Redis server. Lost connections are reopened automatically; until then commands fail at once.
 * - Concurrency: any number of concurrent commands, pipelined without waiting for replies.
 * - Errors: STORE_UNAVAILABLE, see `redisError`. No failure is emitted as an event, and none contains the password.
 * - Ownership: its opener closes it, after its users have closed what they opened on it.
 */
export interface RedisConnections {
  /** Whether keys are spread over several servers: a script may only touch keys of one slot, see `besideKey`. */
  readonly cluster: boolean
  call(command: Command): Promise<Reply>
  /** Sends several commands in one round trip; replies in order, each with its own error. Never rejects. */
  pipeline(commands: readonly Command[]): Promise<readonly (Reply | ToolError)[]>
  /** A separate connection for commands that block at the server, up to `longestMs`. */
  waiting(longestMs: number): WaitingConnection
  /**
   * Subscribes to a channel; the listener receives `undefined` when messages may have been missed. Resolves with the
   * function that unsubscribes, which never rejects.
   */
  subscribe(channel: string, listener: Listener): Promise<() => Promise<void>>
  close(): Promise<void>
}

/** The first version with XAUTOCLAIM and XTRIM MINID. */
const oldest = [6, 2] as const

/**
 * Connects to a Redis server.
 * Rejects with CONFIG_INVALID for an invalid URL, a wrong password or a server that is too old, and with
 * STORE_UNAVAILABLE when the server is unreachable, unless `mayBeUnavailable` is set; then its version is not checked.
 */
export async function openRedis(options: OpenRedisOptions): Promise<RedisConnections> {
  const open = await clientsOf(options)
  const client = open()
  const connectMs = 2 * (options.connectMs ?? usualConnectMs)
  try {
    await connect(client, connectMs)
    checkVersion(await call(client, ['HELLO']).catch(withoutHello))
  } catch (error) {
    const unavailable = ToolError.is(error) && error.code === 'STORE_UNAVAILABLE'
    if (!unavailable || options.mayBeUnavailable !== true) {
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

/** Creates clients that do not connect by themselves; `longerMs` is added to the timeout of replies. */
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

/** Resolves when the client is ready; rejects with the first reason why it is not. */
async function connect(client: Redis | Cluster, connectMs: number): Promise<void> {
  let reason: unknown
  // Without a listener an error would be printed; commands reject with later ones.
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
    ? new ToolError('CONFIG_INVALID', 'Redis refused the user or the password in its URL.', { cause })
    : new ToolError('STORE_UNAVAILABLE', unreachableReason(reason), { cause })
}

/** Node reports certificate errors by OpenSSL codes or its own. */
function unreachableReason(reason: unknown): string {
  const code = reason instanceof Error && 'code' in reason ? String(reason.code) : ''
  if (!/CERT|VERIFY|ISSUER|ALTNAME/.test(code)) return 'Redis is unreachable.'
  return 'Redis shows a certificate that is not trusted, or not for its host.'
}

/** A server that does not know HELLO is older than 6. */
function withoutHello(error: ToolError): Reply {
  if (error.details?.reply !== 'ERR') throw error
  return null
}

function checkVersion(hello: Reply): void {
  const version = textOf(fieldsOf(hello).get('version'))
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major > oldest[0] || (major === oldest[0] && minor >= oldest[1])) return
  const found = /^[\d.]{1,20}$/.test(version) ? version : 'older than 6'
  throw new ToolError('CONFIG_INVALID', `Redis ${oldest.join('.')} or newer is required; the server is ${found}.`)
}

export interface OpenRedisOptions {
  /**
   * `redis://user:password@host:port/database`; `redis+sentinel://user:password@host:port,…/name/database`, where the
   * hosts are sentinels and the name is that of the main server; or `redis+cluster://user:password@host:port,…`.
   * Each with `rediss` over TLS.
   */
  readonly url: string
  /** For `rediss`: authorities to trust in addition to the system's, and the client certificate. */
  readonly tls?: Pick<ConnectionOptions, 'ca' | 'cert' | 'key'>
  /** Credentials for sentinels; those of the servers when absent. */
  readonly sentinel?: { readonly username?: string | undefined; readonly password?: string | undefined }
  /** The timeout of connecting; 5 seconds when absent. */
  readonly connectMs?: number
  /** The timeout of a reply; 5 seconds when absent. */
  readonly commandMs?: number
  /** Connect in the background when the server is unreachable at first, as after a later loss. */
  readonly mayBeUnavailable?: boolean
}

type Settings = Omit<RedisOptions, 'replyMapping'>

/** The default timeouts of connecting and of a reply. */
export const usualConnectMs = 5_000
export const usualCommandMs = 5_000
const firstPauseMs = 50
const longestPauseMs = 5_000

/**
 * A command that cannot be sent now, or whose connection is lost, fails instead of waiting in an unbounded queue. The
 * client reconnects with growing pauses, and never gives up.
 */
export function redisSettings(options: OpenRedisOptions): Settings {
  const address = parseRedisUrl(options.url)
  const { hosts, database, name } = address
  const [first] = hosts
  const db = { db: database }
  if (address.kind !== 'sentinel') return { ...behaviour(options), ...accessOf(address, options), ...first, ...db }
  const { username = address.username, password = address.password } = options.sentinel ?? {}
  return {
    ...behaviour(options),
    ...accessOf(address, options),
    ...db,
    name,
    sentinels: [...hosts],
    ...(username === '' ? {} : { sentinelUsername: username }),
    ...(password === '' ? {} : { sentinelPassword: password }),
    ...(address.secure ? { enableTLSForSentinelMode: true, sentinelTLS: { ...options.tls } } : {}),
    sentinelCommandTimeout: options.commandMs ?? usualCommandMs,
    sentinelRetryStrategy: pauseAfter,
  }
}

/** The same for a cluster: a command whose connection is lost is not sent again, because it may have been executed. */
export function clusterSettings(options: OpenRedisOptions) {
  const address = parseRedisUrl(options.url)
  return {
    nodes: [...address.hosts],
    settings: {
      redisOptions: { ...behaviour(options), ...accessOf(address, options) },
      lazyConnect: true,
      enableOfflineQueue: false,
      retryDelayOnFailover: 0,
      scaleReads: 'master' as const,
      clusterRetryStrategy: pauseAfter,
      slotsRefreshTimeout: options.commandMs ?? usualCommandMs,
      // The certificate names the server by its host name, so the name is not resolved to an address before connecting.
      dnsLookup: (host: string, found: (error: null, address: string) => void) => found(null, host),
    },
  }
}

function behaviour({ connectMs = usualConnectMs, commandMs = usualCommandMs }: OpenRedisOptions) {
  return {
    lazyConnect: true,
    protocol: 2 as const,
    connectionName: 'gantry',
    disableClientInfo: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    autoResubscribe: false,
    connectTimeout: connectMs,
    commandTimeout: commandMs,
    // A server that does not answer for this long counts as unreachable, and its pending commands fail.
    socketTimeout: commandMs,
    keepAlive: 10_000,
    retryStrategy: pauseAfter,
    // A former primary: reconnecting resolves its name to the current one.
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

/** One command at a time. */
interface WaitingConnection {
  call(command: Command): Promise<Reply>
  close(): Promise<void>
}

export async function call(client: Redis | Cluster, [name, ...args]: Command): Promise<Reply> {
  try {
    return (await client.callBuffer(name, args)) as Reply
  } catch (error) {
    throw redisError(error)
  }
}

/**
 * Sends the commands in one round trip; each has its own reply or error. In a cluster, one round trip for each server.
 */
async function pipeline(
  client: Redis | Cluster,
  commands: readonly Command[],
): Promise<readonly (Reply | ToolError)[]> {
  if (client.isCluster) return Promise.all(commands.map((command) => call(client, command).catch(redisError)))
  const together = client.pipeline()
  for (const [name, ...args] of commands) together.callBuffer(name, args)
  const answers = (await together.exec()) ?? []
  return answers.map(([error, reply]) => (error ? redisError(error) : (reply as Reply)))
}

/**
 * Connects, or rejects after the timeout, while the client keeps trying: it queries sentinels and cluster servers one
 * after the other without end.
 */
async function connectWithin(client: Redis | Cluster, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('No server answers.')), ms)
  })
  try {
    await Promise.race([client.connect(), late])
  } finally {
    clearTimeout(timer)
  }
}

/** Connects with the first command. */
function waitingConnection(client: Redis | Cluster, connectMs: number): WaitingConnection {
  client.on('error', () => {})
  return {
    async call(command) {
      if (client.status === 'wait') {
        await connectWithin(client, connectMs).catch((error: unknown) => {
          throw redisError(error)
        })
      }
      return call(client, command)
    },
    close: () => end(client),
  }
}

const longestEndMs = 1_000

/** Ends a connection at once; commands without a reply fail. */
export async function end(client: Redis | Cluster): Promise<void> {
  // A client that waits to reconnect has no connection to end; it only stops waiting.
  const isOpen = client.status !== 'end' && client.status !== 'reconnecting'
  const ended = new Promise<void>((resolve) => {
    client.once('end', () => resolve())
    // A client that is connecting may emit no end.
    setTimeout(resolve, longestEndMs).unref()
  })
  client.disconnect()
  if (isOpen) await ended
}

type Listener = (message: Buffer | undefined) => void

interface Subscriber {
  subscribe(channel: string, listener: Listener): Promise<() => Promise<void>>
  close(): Promise<void>
}

/** The interval of pings that detect a connection lost without notice. */
const askEveryMs = 15_000

/**
 * Subscribes to channels, over a connection of its own.
 *
 * ## States
 * - `off`: there is no connection.
 * - `connecting`: the first connection is being made.
 * - `subscribed`: the client keeps the connection and makes it again whenever it ends.
 *
 * ## Transitions
 * - `off` → `connecting`: the first `subscribe`.
 * - `connecting` → `subscribed`: the connection is ready.
 * - `connecting` → `off`: the connection failed; `subscribe` rejects.
 * - `subscribed` → `subscribed`: the connection was made again. Every channel is subscribed to again and every listener
 *   receives `undefined`, because messages that were published in between are lost.
 */
function createSubscriber(open: () => Redis | Cluster, connectMs: number): Subscriber {
  const channels = new Map<string, Set<Listener>>()
  let connection: Promise<Redis | Cluster> | undefined
  let asking: NodeJS.Timeout | undefined

  const tell = (channel: string, message: Buffer | undefined): void => {
    for (const listener of channels.get(channel) ?? []) listener(message)
  }
  const nameAgain = async (client: Redis | Cluster): Promise<void> => {
    const names = [...channels.keys()]
    if (names.length > 0) await client.subscribe(...names)
    for (const channel of names) tell(channel, undefined)
  }
  const make = async (): Promise<Redis | Cluster> => {
    const client = open()
    client.on('error', () => {})
    client.on('messageBuffer', (channel: Buffer, message: Buffer) => tell(channel.toString(), message))
    await connectWithin(client, connectMs).catch(async (error: unknown) => {
      connection = undefined
      await end(client)
      throw error
    })
    client.on('ready', () => void nameAgain(client).catch(() => client.disconnect(true)))
    asking = setInterval(() => void client.ping().catch(() => {}), askEveryMs).unref()
    return client
  }
  const stop = async (channel: string, listener: Listener): Promise<void> => {
    const listeners = channels.get(channel)
    if (listeners?.delete(listener) !== true || listeners.size > 0) return
    channels.delete(channel)
    await connection?.then((client) => client.unsubscribe(channel)).catch(() => {})
  }
  return {
    async subscribe(channel, listener) {
      const entry: Listener = (message) => listener(message)
      channels.set(channel, (channels.get(channel) ?? new Set()).add(entry))
      try {
        connection ??= make()
        await (await connection).subscribe(channel)
      } catch (error) {
        await stop(channel, entry)
        throw redisError(error)
      }
      return () => stop(channel, entry)
    },
    async close() {
      clearInterval(asking)
      channels.clear()
      await connection?.then(end).catch(() => {})
    },
  }
}
