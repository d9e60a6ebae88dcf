import { resolve } from 'node:path'
import type { Identity, Issue, JsonObject } from '@gantry/contract'
import { isRedisUrl, redisUrlRule } from './redis-url.ts'

export type Broker = 'kafka' | 'redis'

/** Where and how calls come over Kafka. */
export interface KafkaSettings {
  readonly brokers: readonly string[]
  /** Calls come from here, and their results go there. */
  readonly topic: string
  readonly results: string
  readonly deadLetters: string
  /** For what tools send while they run. */
  readonly messages: string
  /** Whether those who watch the conversation hear of starts, progress and ends there. */
  readonly events: boolean
  /** Between two events of progress of one call, at least. */
  readonly progressMs: number
  readonly group: string
  readonly tls: boolean
  readonly caFile?: string
  /** Who we are, for brokers that ask for it. */
  readonly certFile?: string
  readonly keyFile?: string
  readonly saslMechanism?: 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512'
  readonly username?: string
  /** The text itself, or `secret:name`. */
  readonly password?: string
  /** How long a worker may be silent before its partitions go to others; 15 seconds when absent. */
  readonly sessionTimeoutMs?: number
  /** Who may write to the topic is this one; what a message says of itself counts for nothing. */
  readonly identity?: Identity
}

/** Where and how calls come over Redis Streams. */
export interface RedisSettings {
  /** Of a server, of the sentinels of one, or of a cluster. */
  readonly url: string
  /** Who we are to sentinels, when that is not who we are to the servers; the password itself, or `secret:name`. */
  readonly sentinelUsername?: string
  readonly sentinelPassword?: string
  /** For `rediss://`: authorities to trust in the place of the system's, and who we are for servers that ask for it. */
  readonly caFile?: string
  readonly certFile?: string
  readonly keyFile?: string
  readonly stream: string
  readonly group: string
  readonly deadLetters: string
  readonly messages: string
  /** Streams that a message may want its answer in, `*` for anything; the reply streams of gateways when absent. */
  readonly replies?: readonly string[]
  /** Of those whose sessions are in Redis. */
  readonly tenant: string
  /** By `platform:guild`, before `tenant`. */
  readonly tenants: { readonly [guild: string]: string }
  readonly permissions: readonly string[]
  /** Permissions of users besides, by `platform:user`. */
  readonly users: { readonly [user: string]: readonly string[] }
  /** Whether a message that does not say which catalog its sender saw is refused as stale. */
  readonly requireHash: boolean
  /** Whether the gateway gets the text of an exception; it gets the name of its class otherwise. */
  readonly errorText: boolean
  /** How long a worker may be silent before others take what it had read and not kept; a minute when absent. */
  readonly claimIdleMs?: number
  /** Who sends messages that belong to no session, in the native form; without it they are refused. */
  readonly identity?: Identity
  /** After how long a call that has not ended gets an interim answer; 0 for never. */
  readonly backgroundMs: number
  /** Whether the catalog is published there. */
  readonly catalog: boolean
}

/** Where artifacts are kept in S3, and the key to it; nothing else, such as the environment, is asked. */
export interface S3Options {
  /** `https://host` or `https://host:port` of the server; Amazon's of the region when absent. */
  readonly endpoint?: string
  readonly region: string
  /** One that exists. */
  readonly bucket: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string
  /** The bucket in the path and not in the name of the host, as most servers but Amazon's want it. */
  readonly forcePathStyle?: boolean
  /** What the names of all objects begin with; `artifacts` when absent. */
  readonly prefix?: string
  /** Authorities in PEM to trust in the place of the system's. */
  readonly ca?: string
  /** For one request with its repetitions, and for the next bytes of an answer; a minute when absent. */
  readonly timeoutMs?: number
}

/** Where files are kept instead of a folder; its secret is the text itself, or `secret:name`. */
export type S3Settings = Omit<S3Options, 'timeoutMs' | 'ca'> & {
  /** Authorities to trust in the place of the system's. */
  readonly caFile?: string
}

export interface BrokerSettings {
  /** The brokers that calls are taken from, besides the queue in the database. */
  readonly transports: readonly Broker[]
  readonly kafka?: KafkaSettings
  /** Also without the transport: for the spool and the cache. */
  readonly redis?: RedisSettings
  readonly s3?: S3Settings
}

const kafkaDefaults = {
  topic: 'somastack.tools',
  results: 'somastack.tool_results',
  deadLetters: 'somastack.tools.dlq',
  messages: 'conversation.outbound',
  group: 'tool-executor',
  events: true,
  progressMs: 1_000,
  tls: false,
}

const redisDefaults = {
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

/** The keys of a document that speak of brokers; checked before. */
export const brokerKeys = ['transport', 'redisUrl', 'kafkaBrokers', 'redis', 'kafka', 's3'] as const

/** Paths of files begin at the folder. */
export function brokerSettings(document: JsonObject, folder = '.'): BrokerSettings {
  const { redisUrl, kafkaBrokers, redis, kafka, s3 } = document as {
    readonly redisUrl?: string
    readonly kafkaBrokers?: readonly string[]
    readonly redis?: Partial<RedisSettings>
    readonly kafka?: Partial<KafkaSettings>
    readonly s3?: S3Settings
  }
  return {
    transports: transportsOf(document),
    ...(kafkaBrokers === undefined
      ? {}
      : { kafka: withFiles({ ...kafkaDefaults, ...kafka, brokers: kafkaBrokers }, folder) }),
    ...(redisUrl === undefined ? {} : { redis: withFiles({ ...redisDefaults, ...redis, url: redisUrl }, folder) }),
    ...(s3 === undefined ? {} : { s3: withFiles({ ...s3, region: s3.region ?? 'us-east-1' }, folder) }),
  }
}

/** What is missing for what is asked for. */
export function brokerIssues(document: JsonObject): Issue[] {
  const transports = transportsOf(document)
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
    ...loops('/kafka', { ...kafkaDefaults, ...(document.kafka as object) }, [
      'topic',
      'results',
      'deadLetters',
      'messages',
    ]),
  )
  issues.push(
    ...loops('/redis', { ...redisDefaults, ...(document.redis as object) }, ['stream', 'deadLetters', 'messages']),
  )
  issues.push(...unsafe(document))
  const { spool } = (document.service ?? {}) as { readonly spool?: string }
  if (spool === 'redis' && document.redisUrl === undefined) {
    issues.push({ path: '/redisUrl', message: 'is needed for the spool in Redis (or REDIS_URL=redis://…)' })
  }
  return issues
}

/** Files for TLS say that it is wanted; without it they would count for nothing, and nobody would know. */
function unsafe({ redis, redisUrl, s3 }: JsonObject): Issue[] {
  const issues: Issue[] = []
  const files = ['caFile', 'certFile'].filter((name) => (redis as JsonObject | undefined)?.[name] !== undefined)
  if (typeof redisUrl === 'string' && /^redis(?:\+\w+)?:/.test(redisUrl)) {
    issues.push(...files.map((name) => ({ path: `/redis/${name}`, message: 'needs TLS; write rediss:// in redisUrl' })))
  }
  const { endpoint, caFile } = (s3 ?? {}) as { readonly endpoint?: string; readonly caFile?: string }
  if (caFile !== undefined && endpoint?.startsWith('http:') === true) {
    issues.push({ path: '/s3/caFile', message: 'needs TLS; write https:// in endpoint' })
  }
  return issues
}

/** What is written where calls are read from would come back as a call, for ever. */
function loops(
  path: string,
  settings: { readonly [name: string]: unknown },
  [first = '', ...others]: string[],
): Issue[] {
  const same = others.filter((name) => settings[name] === settings[first])
  return same.map((name) => ({ path: `${path}/${name}`, message: `must not be the same as ${path}/${first}` }))
}

function transportsOf({ transport = 'postgres' }: JsonObject): readonly Broker[] {
  const all = (Array.isArray(transport) ? transport : [transport]) as readonly string[]
  return (['kafka', 'redis'] as const).filter((broker) => all.includes(broker))
}

/** The same settings, in which every key that ends in `File` names a path from the folder of the configuration. */
export function withFiles<T extends object>(settings: T, folder: string): T {
  const entries = Object.entries(settings).map(([key, value]) =>
    key.endsWith('File') && typeof value === 'string' ? [key, resolve(folder, value)] : [key, value],
  )
  return Object.fromEntries(entries) as T
}
