import { setTimeout as sleep } from 'node:timers/promises'
import type { Identity } from '@gantry/contract'
import type { BrokerSettings, KafkaSettings, RedisSettings } from '../config/broker-settings.ts'
import { parseRedisUrl } from '../config/redis-url.ts'
import { readTlsFiles, resolveText } from '../config/secret-text.ts'
import type { Codec } from './codecs/codec.ts'
import { nativeCodec } from './codecs/native.ts'
import { somastackCodec } from './codecs/somastack.ts'
import { stargazerCodec, stargazerReplyRule } from './codecs/stargazer.ts'
import type { KafkaConnection } from './transports/kafka.ts'
import type { Publisher } from './transports/message.ts'
import type { RedisConnections } from './transports/redis/connection.ts'
import type { Transport } from './transports/transport.ts'

/** A broker that calls come from. */
export interface BrokerSource {
  readonly kind: 'kafka' | 'redis'
  readonly transport: Transport
  /** In the order in which they are asked whether they speak the language of a message. */
  readonly codecs: readonly Codec[]
  /** Who sends messages that belong to no session. */
  readonly identity: Identity | undefined
}

/** Gateways know tools by names of their own; until those are known, a tool goes by its id. */
export interface ToolNaming {
  nameFor: (id: string) => string
}

/** What the settings name, connected. Whoever opened them closes them. */
export interface Brokers {
  readonly sources: readonly BrokerSource[]
  readonly publishers: ReadonlyMap<string, Publisher>
  /** By the name that an address calls it. */
  readonly codecs: ReadonlyMap<string, Codec>
  /** What gateways call a tool; set once there is a catalog. */
  readonly naming: ToolNaming
  /** Also where no calls come from: for what else is kept there. */
  readonly redis: RedisConnections | undefined
  close(): Promise<void>
}

interface OpenBrokersOptions {
  readonly settings: BrokerSettings
  /** Whether messages are taken here; who only answers needs no door. */
  readonly takes: boolean
  /** Of this process, among all. */
  readonly name: string
  /** Who somebody is for whom nothing else is said. */
  readonly identity: Identity
  readonly secrets: unknown
  readonly say: (line: string) => void
}

/** For a service that calls come to over HTTP only. */
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

/** Connects to the brokers that calls are taken from. Each driver is loaded when it is used. */
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
      if (options.takes) sources.push(await redisDoor(settings.redis, redis, spoken, options.name, keep))
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
      if (options.takes) sources.push(await kafkaDoor(kafka, connection, spoken, identity, keep))
    }
    const byKind = new Map(codecs.map((codec) => [codec.kind, codec]))
    return { sources, publishers, codecs: byKind, naming, redis, close: closeAll }
  } catch (error) {
    await closeAll()
    throw error
  }
}

/** Whoever may write to a topic is one and the same, and holds no permission that nobody gave him. */
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
  return openRedis({ url, tls, sentinel: { username, password }, mayBeAway: true })
}

function redisCodecs(
  { stream, deadLetters, messages, replies, errorText }: RedisSettings,
  naming: ToolNaming,
): readonly Codec[] {
  const ours = [stream, deadLetters, messages]
  const wanted = replies === undefined ? stargazerReplyRule(ours) : oneOf(replies)
  // An answer among the calls would come back as a message, whatever the settings say.
  const mayReplyTo = (to: string): boolean => wanted(to) && !ours.includes(to)
  return [
    stargazerCodec({
      ...{ mayReplyTo, messagesTo: messages, deadLettersTo: deadLetters, errorText },
      toolName: (id) => naming.nameFor(id),
    }),
    nativeCodec({ transport: 'redis', mayReplyTo, deadLettersTo: deadLetters }),
  ]
}

async function redisDoor(
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

/** Whoever may write to the topic is one and the same; what messages say of themselves counts for nothing. */
function kafkaCodecs(
  { results, deadLetters, messages, events }: KafkaSettings,
  { tenant }: Identity,
  naming: ToolNaming,
): readonly Codec[] {
  return [
    somastackCodec({
      ...{ resultsTo: results, messagesTo: messages, deadLettersTo: deadLetters, tenant, events },
      toolName: (id) => naming.nameFor(id),
    }),
    nativeCodec({
      ...{ transport: 'kafka', mayReplyTo: (to) => to === results },
      ...{ defaultReplyTo: results, deadLettersTo: deadLetters },
    }),
  ]
}

async function kafkaDoor(
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

/** Names with `*` for anything; what else is in them means itself. */
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

/** Waits until every broker has told how much waits in it: then its messages can be taken. */
export async function untilConsuming(sources: readonly BrokerSource[], signal: AbortSignal): Promise<void> {
  await Promise.all(sources.map((door) => untilAnswers(door, signal)))
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
