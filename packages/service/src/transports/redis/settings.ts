import type { ConnectionOptions } from 'node:tls'
import { ToolError } from '@gantry/contract'
import type { RedisOptions } from 'ioredis'

export interface OpenRedisOptions {
  /** `redis://user:password@host:port/database`, or `rediss://` over TLS. */
  readonly url: string
  /** For `rediss://`: whom to trust besides the system's authorities, and who we are. */
  readonly tls?: Pick<ConnectionOptions, 'ca' | 'cert' | 'key'>
  /** How long making a connection may take; 5 seconds when absent. */
  readonly connectMs?: number
  /** How long an answer may take; 5 seconds when absent. */
  readonly commandMs?: number
  /** A server that cannot be reached now is waited for in the background, as one that goes away later is. */
  readonly mayBeAway?: boolean
}

type Settings = Omit<RedisOptions, 'replyMapping'>

const firstPauseMs = 50
const longestPauseMs = 5_000

/**
 * How a connection behaves: a command that cannot be sent now, or whose connection ends, fails instead of waiting in a
 * queue without end; the connection is made again after a pause that grows, and never given up.
 */
export function redisSettings({ url, tls, connectMs = 5_000, commandMs = 5_000 }: OpenRedisOptions): Settings {
  return {
    ...addressOf(url, tls),
    ...{ lazyConnect: true, protocol: 2, connectionName: 'gantry', disableClientInfo: true },
    ...{ enableOfflineQueue: false, autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0 },
    autoResubscribe: false,
    connectTimeout: connectMs,
    commandTimeout: commandMs,
    // A server that is silent for that long is given up, and what was sent to it is not kept.
    socketTimeout: commandMs,
    keepAlive: 10_000,
    retryStrategy: (times) => Math.min(firstPauseMs * 2 ** times, longestPauseMs) * (0.5 + Math.random() / 2),
    // The one that was the main server no longer is: its name leads to another one now.
    reconnectOnError: ({ message }) => message.startsWith('READONLY'),
  }
}

/** Only these parts of the URL count: its parameters could undo the settings. */
function addressOf(url: string, tls: OpenRedisOptions['tls']): Settings {
  const parsed = URL.parse(url)
  const database = /^\/?(\d{0,5})$/.exec(parsed?.pathname ?? '')
  if (parsed === null || !/^rediss?:$/.test(parsed.protocol) || parsed.hostname === '' || database === null) {
    throw new ToolError('CONFIG_INVALID', 'The address of Redis is not of the form redis://host:port/number.')
  }
  const username = decoded(parsed.username)
  const password = decoded(parsed.password)
  return {
    host: parsed.hostname.replace(/^\[|\]$/g, ''),
    port: parsed.port === '' ? 6379 : Number(parsed.port),
    db: Number(database[1]),
    ...(username === '' ? {} : { username }),
    ...(password === '' ? {} : { password }),
    ...(parsed.protocol === 'rediss:' ? { tls: { ...tls } } : {}),
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new ToolError('CONFIG_INVALID', 'The user or the password of Redis has a % that is not an escape; write %25.')
  }
}
