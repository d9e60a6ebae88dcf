import { resolve } from 'node:path'
import { type Identity, type Issue, type JsonObject, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { ConfigDocument } from './config.ts'

export type Broker = 'kafka' | 'redis'

/** Settings of the Kafka transport. */
export interface KafkaSettings {
  readonly brokers: readonly string[]
  /** The topics of calls and of their results. */
  readonly topic: string
  readonly results: string
  readonly deadLetters: string
  /** The topic of messages that tools send while they run. */
  readonly messages: string
  /** Whether starts, progress and ends of calls are published there. */
  readonly events: boolean
  /** Minimum time between two progress events of one call. */
  readonly progressMs: number
  readonly group: string
  readonly tls: boolean
  readonly caFile?: string
  /** Client certificate, for brokers that require one. */
  readonly certFile?: string
  readonly keyFile?: string
  readonly saslMechanism?: 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512'
  readonly username?: string
  /** Plain text, or `secret:name`. */
  readonly password?: string
  /** Time without a heartbeat after which a worker's partitions are reassigned; 15 seconds when absent. */
  readonly sessionTimeoutMs?: number
  /** The identity of every message of the topic; the identity that a message claims is ignored. */
  readonly identity?: Identity
}

/** Settings of the Redis Streams transport. */
export interface RedisSettings {
  /** URL of a server, of its sentinels, or of a cluster. */
  readonly url: string
  /** Credentials for sentinels, when they differ from those for servers; the password can be `secret:name`. */
  readonly sentinelUsername?: string
  readonly sentinelPassword?: string
  /** For `rediss://`: authorities that replace the system's, and a client certificate for servers that require one. */
  readonly caFile?: string
  readonly certFile?: string
  readonly keyFile?: string
  readonly stream: string
  readonly group: string
  readonly deadLetters: string
  readonly messages: string
  /** Streams that a message may name for its reply, `*` as a wildcard; reply streams of gateways when absent. */
  readonly replies?: readonly string[]
  /** Tenant of users with a session in Redis. */
  readonly tenant: string
  /** Tenants by `platform:guild`; these win over `tenant`. */
  readonly tenants: { readonly [guild: string]: string }
  readonly permissions: readonly string[]
  /** Additional permissions by `platform:user`. */
  readonly users: { readonly [user: string]: readonly string[] }
  /** Whether a message without the hash of a catalog is refused as stale. */
  readonly requireHash: boolean
  /** Whether the gateway gets the text of an exception, or only the name of its class. */
  readonly errorText: boolean
  /** Idle time after which other workers claim a message that was read and not settled; a minute when absent. */
  readonly claimIdleMs?: number
  /** Identity of native messages without a session; without it they are refused. */
  readonly identity?: Identity
  /** Time after which a running call gets an interim reply; 0 for never. */
  readonly backgroundMs: number
  /** Whether the catalog is published to Redis. */
  readonly catalog: boolean
}

/** Bucket and credentials for artifacts in S3. The environment and AWS config files are not read. */
export interface S3Options {
  /** `https://host` or `https://host:port`; Amazon S3 of the region when absent. */
  readonly endpoint?: string
  readonly region: string
  /** An existing bucket. */
  readonly bucket: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string
  /** Puts the bucket into the path instead of the host name, as most servers other than Amazon's require. */
  readonly forcePathStyle?: boolean
  /** Prefix of all object keys; `artifacts` when absent. */
  readonly prefix?: string
  /** Authorities in PEM that replace the system's. */
  readonly ca?: string
  /** Limit for one request with its retries, and for each pause within a response; a minute when absent. */
  readonly timeoutMs?: number
}

/** S3 as the artifact store, instead of a folder. Its secret key is plain text or `secret:name`. */
export type S3Settings = Omit<S3Options, 'timeoutMs' | 'ca'> & {
  /** Authorities that replace the system's. */
  readonly caFile?: string
}

export interface BrokerSettings {
  /** Brokers that calls are consumed from, in addition to the queue in the database. */
  readonly transports: readonly Broker[]
  readonly kafka?: KafkaSettings
  /** Set also without the transport redis, for the spool and the cache. */
  readonly redis?: RedisSettings
  readonly s3?: S3Settings
}

export const kafkaDefaults = {
  topic: 'somastack.tools',
  results: 'somastack.tool_results',
  deadLetters: 'somastack.tools.dlq',
  messages: 'conversation.outbound',
  group: 'tool-executor',
  events: true,
  progressMs: 1_000,
  tls: false,
}

export const redisDefaults = {
  stream: 'sg:stream:tools',
  group: 'sg:tools',
  deadLetters: 'sg:stream:dlq',
  messages: 'sg:stream:outbound',
  tenant: 'default',
  tenants: {},
  permissions: [],
  users: {},
  requireHash: false,
  errorText: false,
  claimIdleMs: 15_000,
  backgroundMs: 10_000,
  catalog: true,
}

/** The keys of a document for brokers. */
export const brokerKeys = ['transport', 'redisUrl', 'kafkaBrokers', 'redis', 'kafka', 's3'] as const

/** The broker settings of a checked document. Paths of files are resolved from `folder`. */
export function brokerSettings(document: ConfigDocument, folder = '.'): BrokerSettings {
  const { redisUrl, kafkaBrokers, redis, kafka, s3, transport } = document
  return {
    transports: transportsOf(transport),
    ...(kafkaBrokers === undefined
      ? {}
      : { kafka: withFiles({ ...kafkaDefaults, ...kafka, brokers: kafkaBrokers }, folder) }),
    ...(redisUrl === undefined ? {} : { redis: withFiles({ ...redisDefaults, ...redis, url: redisUrl }, folder) }),
    ...(s3 === undefined ? {} : { s3: withFiles({ ...s3, region: s3.region ?? 'us-east-1' }, folder) }),
  }
}

/** Missing addresses, unused TLS files and loops, which the schema does not find. */
export function brokerIssues(document: JsonObject): Issue[] {
  const transports = transportsOf(document.transport)
  const issues: Issue[] = []
  if (transports.includes('kafka') && document.kafkaBrokers === undefined) {
    issues.push({ path: '/kafkaBrokers', message: 'is needed for the transport kafka (or KAFKA_BROKERS=host:port)' })
  }
  if (transports.includes('redis') && document.redisUrl === undefined) {
    issues.push({ path: '/redisUrl', message: 'is needed for the transport redis (or REDIS_URL=redis://…)' })
  }
  if (typeof document.redisUrl === 'string' && !isRedisUrl(document.redisUrl)) {
    issues.push({ path: '/redisUrl', message: redisUrlRule })
  }
  issues.push(
    ...loops('/kafka', { ...kafkaDefaults, ...partOf(document.kafka) }, [
      'topic',
      'results',
      'deadLetters',
      'messages',
    ]),
  )
  issues.push(
    ...loops('/redis', { ...redisDefaults, ...partOf(document.redis) }, ['stream', 'deadLetters', 'messages']),
  )
  issues.push(...unsafe(document))
  if (partOf(document.service).spool === 'redis' && document.redisUrl === undefined) {
    issues.push({ path: '/redisUrl', message: 'is needed for the spool in Redis (or REDIS_URL=redis://…)' })
  }
  return issues
}

/** TLS files without TLS are refused; they would be ignored silently. */
function unsafe({ redis, redisUrl, s3 }: JsonObject): Issue[] {
  const issues: Issue[] = []
  const files = ['caFile', 'certFile'].filter((name) => partOf(redis)[name] !== undefined)
  if (typeof redisUrl === 'string' && /^redis(?:\+\w+)?:/.test(redisUrl)) {
    issues.push(...files.map((name) => ({ path: `/redis/${name}`, message: 'needs TLS; write rediss:// in redisUrl' })))
  }
  const { endpoint, caFile } = partOf(s3)
  if (caFile !== undefined && typeof endpoint === 'string' && endpoint.startsWith('http:')) {
    issues.push({ path: '/s3/caFile', message: 'needs TLS; write https:// in endpoint' })
  }
  return issues
}

/** An output that is also the input would be consumed as calls, endlessly. */
function loops(
  path: string,
  settings: { readonly [name: string]: unknown },
  [first = '', ...others]: string[],
): Issue[] {
  const same = others.filter((name) => settings[name] === settings[first])
  return same.map((name) => ({ path: `${path}/${name}`, message: `must not be the same as ${path}/${first}` }))
}

/** A part of an unchecked document; empty when it is no object, which the schema reports. */
function partOf(value: unknown): { readonly [name: string]: unknown } {
  return isObject(value) ? value : {}
}

function transportsOf(transport: unknown): readonly Broker[] {
  const all: readonly unknown[] = Array.isArray(transport) ? transport : [transport]
  return (['kafka', 'redis'] as const).filter((broker) => all.includes(broker))
}

/** Resolves every setting whose key ends in `File` from the folder of the configuration. */
export function withFiles<T extends object>(settings: T, folder: string): T {
  const placed = { ...settings }
  for (const [key, value] of Object.entries(settings)) {
    if (key.endsWith('File') && typeof value === 'string') Object.assign(placed, { [key]: resolve(folder, value) })
  }
  return placed
}

export interface Host {
  readonly host: string
  readonly port: number
}

/** The parts of a Redis URL. */
export interface RedisAddress {
  readonly kind: 'server' | 'sentinel' | 'cluster'
  readonly secure: boolean
  readonly hosts: readonly Host[]
  readonly username: string
  readonly password: string
  readonly database: number
  /** Name of the master that the sentinels monitor. */
  readonly name: string
}

const usualPort = { server: 6_379, sentinel: 26_379, cluster: 6_379 }
const scheme = /^redis(s?)(?:\+(sentinel|cluster))?:\/\//
const mostHosts = 100

/**
 * Parses a Redis URL. Query parameters are ignored, because they could override the settings.
 * Throws CONFIG_INVALID, without any part of the URL.
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
    kind,
    secure: s === 's',
    hosts: known,
    name,
    database: Number(database),
    username: decoded(username),
    password: decoded(password),
  }
}

const forms = {
  server: 'redis://host:port/number',
  sentinel: 'redis+sentinel://host:port,host:port/name/number',
  cluster: 'redis+cluster://host:port,host:port',
}

/** The accepted forms of a Redis URL, as the message of an issue. */
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
  return new ToolError('CONFIG_INVALID', `The Redis URL must be of the form ${forms[kind]}.`)
}

function hostOf(text: string, usual: number): Host | undefined {
  const parsed = URL.parse(`redis://${text}`)
  if (parsed === null || parsed.hostname === '') return undefined
  return { host: parsed.hostname.replace(/^\[|\]$/g, ''), port: parsed.port === '' ? usual : Number(parsed.port) }
}

/** The text before the first separator, and the text after it. */
function splitOnce(text: string, separator: RegExp): [string, string] {
  const at = text.search(separator)
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new ToolError(
      'CONFIG_INVALID',
      'The user or the password of the Redis URL has a % that is not an escape; write %25.',
    )
  }
}
