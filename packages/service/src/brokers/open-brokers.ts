import { setTimeout as sleep } from 'node:timers/promises'
import type { Identity } from '@gantry/contract'
import {
  type BrokerSettings,
  type KafkaSettings,
  parseRedisUrl,
  type RedisSettings,
} from '../config/broker-settings.ts'
import { readTlsFiles, resolveText } from '../config/secret-sources.ts'
import type { Codec } from './codecs/codec.ts'
import { nativeCodec } from './codecs/native.ts'
import { somastackCodec } from './codecs/somastack.ts'
import { stargazerCodec, stargazerReplyRule } from './codecs/stargazer.ts'
import type { KafkaConnection } from './transports/kafka.ts'
import type { RedisConnections } from './transports/redis/connection.ts'
import type { Publisher, Transport } from './transports/transport.ts'

/** A broker that calls are consumed from. */
export interface BrokerSource {
  readonly kind: 'kafka' | 'redis'
  readonly transport: Transport
  /** In the order in which they try to recognise a message. */
  readonly codecs: readonly Codec[]
  /** The identity of messages that belong to no session. */
  readonly identity: Identity | undefined
}

/** Gateways know tools by names of their own; until those are set, a tool goes by its id. */
export interface ToolNaming {
  nameFor: (id: string) => string
}

/** The configured brokers, connected. The caller closes them. */
export interface Brokers {
  readonly sources: readonly BrokerSource[]
  readonly publishers: ReadonlyMap<string, Publisher>
  /** By the codec name of a reply address. */
  readonly codecs: ReadonlyMap<string, Codec>
  /** The gateway names of tools; set once there is a catalog. */
  readonly naming: ToolNaming
  /** Also set where no calls come from Redis: other parts store data there. */
  readonly redis: RedisConnections | undefined
  close(): Promise<void>
}

interface OpenBrokersOptions {
  readonly settings: BrokerSettings
  /** Whether this process consumes messages; a process that only replies consumes none. */
  readonly takes: boolean
  /** The name of this process, unique among all. */
  readonly name: string
  /** The identity of senders without one of their own. */
  readonly identity: Identity
  readonly secrets: unknown
  readonly say: (line: string) => void
}

/** For a service that receives calls over HTTP only. */
export const noBrokers: Brokers = {
  ...{
    sources: [],
    publishers: new Map(),
    codecs: new Map(),
    redis: undefined,
    naming: { nameFor: (id: string) => id },
  },
  close: async () => undefined,
}

/** Connects to the configured brokers. Each driver is loaded when it is used. */
export async function openBrokers(options: OpenBrokersOptions): Promise<Brokers> {
  const { settings } = options
  const { transports } = settings
  const opened: { close(): Promise<void> }[] = []
  const closeAll = async (): Promise<void> => {
    for (const one of [...opened].reverse()) await one.close().catch(() => undefined)
  }
  const keep = <T extends { close(): Promise<void> }>(one: T): T => {
    opened.push(one)
    return one
  }
  try {
    const sources: BrokerSource[] = []
    const naming: ToolNaming = { nameFor: (id) => id }
    const codecs: Codec[] = []
    const publishers = new Map<string, Publisher>()
    const redis = settings.redis === undefined ? undefined : keep(await connectRedis(settings.redis, options))
    if (transports.includes('redis') && settings.redis !== undefined && redis !== undefined) {
      const { redisPublisher } = await import('./transports/redis/publisher.ts')
      publishers.set('redis', keep(redisPublisher({ redis })))
      const spoken = redisCodecs(settings.redis, naming)
      codecs.push(...spoken)
      if (options.takes) sources.push(await openRedisSource(settings.redis, redis, spoken, options.name, keep))
    }
    if (transports.includes('kafka') && settings.kafka !== undefined) {
      const { kafka } = settings
      options.say(`connecting to Kafka at ${kafka.brokers.join(', ')}`)
      const connection = await kafkaConnection(kafka, options)
      const { kafkaPublisher } = await import('./transports/kafka.ts')
      publishers.set('kafka', keep(await kafkaPublisher(connection)))
      const identity = kafka.identity ?? senderOf(options.identity, kafka.topic)
      const spoken = kafkaCodecs(kafka, identity, naming)
      codecs.push(...spoken)
      if (options.takes) sources.push(await openKafkaSource(kafka, connection, spoken, identity, keep))
    }
    const byKind = new Map(codecs.map((codec) => [codec.kind, codec]))
    return { sources, publishers, codecs: byKind, naming, redis, close: closeAll }
  } catch (error) {
    await closeAll()
    throw error
  }
}

/** All writers of a topic have one identity, with only the configured permissions. */
function senderOf({ tenant }: Identity, topic: string): Identity {
  return { principal: `kafka:${topic}`, tenant, permissions: [] }
}

type Keep = <T extends { close(): Promise<void> }>(one: T) => T

async function connectRedis(
  settings: RedisSettings,
  { say, secrets }: Pick<OpenBrokersOptions, 'say' | 'secrets'>,
): Promise<RedisConnections> {
  const { url, sentinelUsername: username, sentinelPassword } = settings
  const hosts = parseRedisUrl(url).hosts.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`)
  say(`connecting to Redis at ${hosts.join(', ')}`)
  const password =
    sentinelPassword === undefined
      ? undefined
      : await resolveText(sentinelPassword, secrets, '/redis/sentinelPassword names')
  const tls = await readTlsFiles(settings, '/redis')
  const { openRedis } = await import('./transports/redis/connection.ts')
  return openRedis({ url, tls, sentinel: { username, password }, mayBeUnavailable: true })
}

function redisCodecs(
  { stream, deadLetters, messages, replies, errorText }: RedisSettings,
  naming: ToolNaming,
): readonly Codec[] {
  const ours = [stream, deadLetters, messages]
  const wanted = replies === undefined ? stargazerReplyRule(ours) : oneOf(replies)
  // A reply to the stream of calls would be consumed as a message, so it is refused whatever the settings allow.
  const mayReplyTo = (to: string): boolean => wanted(to) && !ours.includes(to)
  return [
    stargazerCodec({
      mayReplyTo,
      messagesTo: messages,
      deadLettersTo: deadLetters,
      errorText,
      toolName: (id) => naming.nameFor(id),
    }),
    nativeCodec({ transport: 'redis', mayReplyTo, deadLettersTo: deadLetters }),
  ]
}

async function openRedisSource(
  { stream, group, identity, claimIdleMs }: RedisSettings,
  redis: RedisConnections,
  codecs: readonly Codec[],
  consumer: string,
  keep: Keep,
): Promise<BrokerSource> {
  const { redisTransport } = await import('./transports/redis.ts')
  const idle = claimIdleMs === undefined ? {} : { claimIdleMs }
  const transport = keep(await redisTransport({ redis, stream, group, consumer, ...idle }))
  return { kind: 'redis', transport, codecs, identity }
}

/** All writers of the topic have one identity; an identity in a message is ignored. */
function kafkaCodecs(
  { results, deadLetters, messages, events }: KafkaSettings,
  { tenant }: Identity,
  naming: ToolNaming,
): readonly Codec[] {
  return [
    somastackCodec({
      resultsTo: results,
      messagesTo: messages,
      deadLettersTo: deadLetters,
      tenant,
      events,
      toolName: (id) => naming.nameFor(id),
    }),
    nativeCodec({
      transport: 'kafka',
      mayReplyTo: (to) => to === results,
      defaultReplyTo: results,
      deadLettersTo: deadLetters,
    }),
  ]
}

async function openKafkaSource(
  { topic, group, sessionTimeoutMs }: KafkaSettings,
  connection: KafkaConnection,
  codecs: readonly Codec[],
  identity: Identity,
  keep: Keep,
): Promise<BrokerSource> {
  const { kafkaTransport } = await import('./transports/kafka.ts')
  const silence = sessionTimeoutMs === undefined ? {} : { sessionTimeoutMs }
  const transport = keep(await kafkaTransport({ ...connection, group, topics: [topic], ...silence }))
  return { kind: 'kafka', transport, codecs, identity }
}

async function kafkaConnection(
  settings: KafkaSettings,
  { name, secrets }: OpenBrokersOptions,
): Promise<KafkaConnection> {
  const { brokers, tls, saslMechanism: mechanism, username, password } = settings
  const files = await readTlsFiles(settings, '/kafka')
  const sasl =
    mechanism === undefined || username === undefined || password === undefined
      ? {}
      : { sasl: { mechanism, username, password: await resolveText(password, secrets, '/kafka/password names') } }
  const secured = tls || Object.keys(files).length > 0 ? { tls: files } : {}
  return { brokers: [...brokers], clientId: `gantry-${name}`, ...sasl, ...secured }
}

/** Matches names in which `*` is a wildcard and every other character is literal. */
function oneOf(patterns: readonly string[]): (to: string) => boolean {
  const forms = patterns.map((pattern) => pattern.split('*'))
  return (to) => forms.some((parts) => matches(to, parts))
}

function matches(text: string, [first = '', ...rest]: readonly string[]): boolean {
  if (!text.startsWith(first)) return false
  if (rest.length === 0) return text === first
  const last = rest.at(-1) ?? ''
  let at = first.length
  for (const part of rest.slice(0, -1)) {
    const found = text.indexOf(part, at)
    if (found < 0) return false
    at = found + part.length
  }
  return text.length - last.length >= at && text.endsWith(last)
}

const lookEveryMs = 500

/** Waits until every broker has answered its lag: then messages can be consumed. */
export async function untilConsuming(sources: readonly BrokerSource[], signal: AbortSignal): Promise<void> {
  await Promise.all(sources.map((source) => untilAnswers(source, signal)))
}

async function untilAnswers({ transport }: BrokerSource, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await transport.lag?.()
      return
    } catch {
      await sleep(lookEveryMs, undefined, { signal }).catch(() => undefined)
    }
  }
}
