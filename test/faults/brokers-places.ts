import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import { type KafkaServer, startKafka } from '../../scripts/engines/kafka.ts'
import type { KeptServer } from '../../scripts/engines/keeper.ts'
import { type RedisServer, startRedis } from '../../scripts/engines/redis.ts'
import { type ProxiedLink, startToxiproxy, type Toxiproxy } from '../../scripts/engines/toxiproxy.ts'
import { type Gate, kafkaGate, redisGate } from './brokers-gates.ts'
import { openSite, type Site, type SiteOptions } from './site.ts'

export type BrokerKind = 'kafka' | 'redis'

/** The part of a shared broker that one test uses: its own topics on Kafka, or its own database on Redis. */
export interface Place {
  readonly kind: BrokerKind
  readonly server: KeptServer
  /** Environment of the nodes, with the address of the broker. */
  readonly environment: NodeJS.ProcessEnv
  /** Source text of a member of the configuration. */
  readonly config: string
  /** The proxy between nodes and broker, if there is one; gateways connect directly. */
  readonly link: ProxiedLink | undefined
  /** Opens a gateway on this broker that writes to the ledgers of a site. */
  open(site: Site): Promise<Gate>
}

interface Engines {
  redis?: Promise<RedisServer>
  kafka?: Promise<{ readonly server: KafkaServer; readonly link: ProxiedLink }>
  toxiproxy?: Promise<Toxiproxy>
  databases: number
}

/** Engines of this process, started at first use; they end with it. */
const engines: Engines = { databases: 0 }

export const toxiproxy = (): Promise<Toxiproxy> => {
  engines.toxiproxy ??= startToxiproxy()
  return engines.toxiproxy
}

/** Short, so that the messages of a dead worker are taken over soon. */
const silentMs = 1_500

export async function redisPlace({ linked = false, own = false } = {}): Promise<Place> {
  engines.redis ??= startRedis({ fsync: 'always' })
  const server = own ? await startRedis({ fsync: 'everysec' }) : await engines.redis
  engines.databases = (engines.databases % 15) + 1
  const url = own ? server.url : `${server.url}/${engines.databases}`
  const link = linked ? await (await toxiproxy()).proxy(`127.0.0.1:${server.port}`) : undefined
  const nodesUrl = new URL(url)
  if (link !== undefined) nodesUrl.port = String(link.port)
  return {
    kind: 'redis',
    server,
    link,
    environment: { REDIS_URL: nodesUrl.href },
    // The ledgers compare replies, so that interim replies are disabled.
    config: `redis: { claimIdleMs: ${silentMs}, backgroundMs: 0 },`,
    open: (site) => redisGate(site, url),
  }
}

export async function kafkaPlace({ linked = false, partitions = 6 } = {}): Promise<Place> {
  engines.kafka ??= startLinkedKafka()
  const { server, link } = await engines.kafka
  const mark = randomBytes(4).toString('hex')
  const [topic = '', results = '', deadLetters = ''] = ['tools', 'results', 'dead'].map((name) => `${name}.${mark}`)
  await server.createTopics([topic, results, deadLetters], partitions)
  const settings = { topic, results, deadLetters, group: `group-${mark}`, sessionTimeoutMs: silentMs }
  return {
    kind: 'kafka',
    server,
    link: linked ? link : undefined,
    environment: { KAFKA_BROKERS: (linked ? server.linked : undefined) ?? server.brokers },
    config: `kafka: ${JSON.stringify(settings)},`,
    open: (site) => kafkaGate(site, { brokers: server.brokers, requestsTo: topic, resultsFrom: results }),
  }
}

async function startLinkedKafka(): Promise<{ readonly server: KafkaServer; readonly link: ProxiedLink }> {
  const proxies = await toxiproxy()
  const made = Promise.withResolvers<ProxiedLink>()
  const server = await startKafka({
    async link(upstream) {
      const link = await proxies.proxy(upstream)
      made.resolve(link)
      return link.port
    },
  })
  return { server, link: await made.promise }
}

export function placeOf(kind: BrokerKind, options: { readonly linked?: boolean } = {}): Promise<Place> {
  return kind === 'redis' ? redisPlace(options) : kafkaPlace(options)
}

/** A site whose nodes take calls from these brokers and over HTTP. */
export function openBrokerSite(
  t: TestContext,
  places: readonly Place[],
  options: Partial<SiteOptions> = {},
): Promise<Site> {
  const environment = Object.assign({}, ...places.map((place) => place.environment), {
    GANTRY_TRANSPORT: places.map(({ kind }) => kind).join(','),
  })
  const config = places.map((place) => place.config).join(' ')
  return openSite(t, { engine: 'postgres', config, environment, ...options })
}

/** The reason to skip tests if an engine cannot be started; false if all can. */
export async function missingEngines(...kinds: readonly BrokerKind[]): Promise<string | false> {
  try {
    await Promise.all(kinds.map((kind) => placeOf(kind)))
    return false
  } catch (error) {
    if (process.env.GANTRY_ENGINES === 'required') throw error
    return `Cannot start the engines: ${(error as Error).message}`
  }
}
