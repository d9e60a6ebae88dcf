import type { ConnectionOptions } from 'node:tls'
import { ToolError } from '@gantry/contract'
import type { RedisOptions } from 'ioredis'

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

interface Host {
  readonly host: string
  readonly port: number
}

/** The parts of an address. */
export interface RedisAddress {
  readonly kind: 'server' | 'sentinel' | 'cluster'
  readonly secure: boolean
  readonly hosts: readonly Host[]
  readonly username: string
  readonly password: string
  readonly database: number
  /** Of the main server, as its sentinels know it. */
  readonly name: string
}

/** How long making a connection may take, and an answer. */
export const usualConnectMs = 5_000
export const usualCommandMs = 5_000
const firstPauseMs = 50
const longestPauseMs = 5_000
const usualPort = { server: 6_379, sentinel: 26_379, cluster: 6_379 }

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

const scheme = /^redis(s?)(?:\+(sentinel|cluster))?:\/\//
const mostHosts = 100

/**
 * Reads an address. Only these parts of it count: the parameters of a URL could undo the settings.
 * Throws CONFIG_INVALID, without any part of the address.
 */
export function parseRedisUrl(url: string): RedisAddress {
  const [begin = '', s, form] = scheme.exec(url) ?? []
  const kind = form === 'sentinel' || form === 'cluster' ? form : 'server'
  if (begin === '') throw wrongAddress(kind)
  const [rest] = splitOnce(url.slice(begin.length), /[?#]/)
  const [authority, path] = splitOnce(rest, /\//)
  const at = authority.lastIndexOf('@')
  const hosts = authority.slice(at + 1).split(',', mostHosts + 1)
  const known = hosts.flatMap((host) => hostOf(host, usualPort[kind]) ?? [])
  const [name, database] = kind === 'sentinel' ? splitOnce(path, /\//) : ['', path]
  const counted = known.length === hosts.length && hosts.length <= (kind === 'server' ? 1 : mostHosts)
  const named = kind !== 'sentinel' || /^[\w.-]{1,100}$/.test(name)
  const numbered = kind === 'cluster' ? path === '' : /^\d{0,5}$/.test(database)
  if (!counted || !named || !numbered) throw wrongAddress(kind)
  const [username, password] = splitOnce(authority.slice(0, Math.max(0, at)), /:/)
  return {
    ...{ kind, secure: s === 's', hosts: known, name, database: Number(database) },
    ...{ username: decoded(username), password: decoded(password) },
  }
}

const forms = {
  server: 'redis://host:port/number',
  sentinel: 'redis+sentinel://host:port,host:port/name/number',
  cluster: 'redis+cluster://host:port,host:port',
}

/** What an address must be, for those who check it before it is used. */
export const redisUrlRule = `must be of the form ${forms.server}, ${forms.sentinel} or ${forms.cluster}, each with user:password@ before the hosts if need be (%25 for a %), and with rediss for TLS`

export function isRedisUrl(url: string): boolean {
  try {
    parseRedisUrl(url)
    return true
  } catch {
    return false
  }
}

function wrongAddress(kind: RedisAddress['kind']): ToolError {
  return new ToolError('CONFIG_INVALID', `The address of Redis is not of the form ${forms[kind]}.`)
}

function hostOf(text: string, usual: number): Host | undefined {
  const parsed = URL.parse(`redis://${text}`)
  if (parsed === null || parsed.hostname === '') return undefined
  return { host: parsed.hostname.replace(/^\[|\]$/g, ''), port: parsed.port === '' ? usual : Number(parsed.port) }
}

/** What stands before the first separator, and what behind. */
function splitOnce(text: string, separator: RegExp): [string, string] {
  const at = text.search(separator)
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new ToolError('CONFIG_INVALID', 'The user or the password of Redis has a % that is not an escape; write %25.')
  }
}
