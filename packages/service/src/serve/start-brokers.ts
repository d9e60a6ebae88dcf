import { brokerCalls, followNames } from '../brokers/broker-calls.ts'
import { consumeBrokers } from '../brokers/consumer.ts'
import { createGatewayView, type GatewayView } from '../brokers/gateways/gateway-names.ts'
import { type RedisGateway, startRedisGateway } from '../brokers/gateways/redis-gateway.ts'
import { createMessageRefusals, refusalSources } from '../brokers/inbound.ts'
import type { Snapshots } from '../config/snapshots.ts'
import type { Configuration } from './load-configuration.ts'
import type { Replies } from './open-replies.ts'
import type { Storage } from './open-storage.ts'
import type { ServiceParts } from './start.ts'
import type { Api } from './start-api.ts'
import type { WorkerParts } from './start-worker.ts'

interface BrokersContext {
  readonly storage: Storage
  readonly snapshots: Snapshots
  readonly configuration: Configuration
  readonly replies: Replies
  readonly work: WorkerParts
  readonly api: Api
}

/** The running consumers of brokers. */
export interface RunningBrokers {
  stop(): Promise<void>
}

/**
 * Consumes calls from brokers, and publishes the catalog to gateways; does nothing in a process without worker or
 * brokers.
 */
export function startBrokers(
  parts: ServiceParts,
  { storage, snapshots, configuration, replies, work, api }: BrokersContext,
): RunningBrokers | undefined {
  const { brokers, settings, bus, identity } = parts
  const { database, posts } = storage
  const { answers, notices } = replies
  const { worker } = work
  if (worker === undefined || brokers.sources.length === 0) return undefined
  const view = createGatewayView(identity)
  const gateway = startGateway(parts, snapshots, configuration, view)
  const calls = brokerCalls({ intake: api.intake, notices, posts, snapshots, view, gateway })
  const consumers = consumeBrokers({
    sources: brokers.sources,
    worker,
    bus,
    session: calls.session,
    understand: calls.understand,
    submit: calls.submit,
    attach: calls.attach,
    refuse: createMessageRefusals({ database, answers, bus, sources: refusalSources(settings.brokers, identity) }),
  })
  const unfollow = followNames(brokers.naming, view, snapshots)
  return {
    async stop() {
      unfollow()
      await consumers.stop()
      await gateway?.stop()
    },
  }
}

/** The gateways on Redis, when calls are consumed from it. */
function startGateway(
  parts: ServiceParts,
  snapshots: Snapshots,
  { reload }: Configuration,
  view: GatewayView,
): RedisGateway | undefined {
  const { brokers, settings, bus, latest } = parts
  const { redis: first, transports } = settings.brokers
  const { redis } = brokers
  if (redis === undefined || first === undefined || !transports.includes('redis')) return undefined
  return startRedisGateway({ redis, settings: () => latest().redis ?? first, snapshots, view, bus, reload })
}
