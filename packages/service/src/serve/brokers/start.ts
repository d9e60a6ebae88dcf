import { type Identity, ToolError } from '@gantry/contract'
import type { Intake } from '../../admission/intake.ts'
import type { Decoded } from '../../brokers/codecs/codec.ts'
import { openDoors } from '../../brokers/consume-brokers.ts'
import { refuseBinary } from '../../brokers/gateways/binary-args.ts'
import { createGatewayView } from '../../brokers/gateways/gateway-names.ts'
import { type RedisParts, startRedisParts } from '../../brokers/gateways/redis-gateway.ts'
import type { Brokers } from '../../brokers/open-brokers.ts'
import { createRefuse } from '../../brokers/refuse-message.ts'
import type { BrokerSettings, RedisSettings } from '../../config/broker-settings.ts'
import type { Snapshots } from '../../config/snapshots.ts'
import type { Bus } from '../../observe/bus.ts'
import type { Answers } from '../../reply/broker-replies.ts'
import type { Notices } from '../../reply/notices.ts'
import type { CallInput } from '../../storage/call-input.ts'
import type { Database } from '../../storage/databases/database.ts'
import type { OutboxPosts } from '../../storage/outbox/outbox-posts.ts'
import type { Worker } from '../../worker/worker.ts'

export interface StartBrokersOptions {
  readonly brokers: Brokers
  /** As they were at the start, and as the configuration has them now. */
  readonly settings: BrokerSettings
  readonly latest: () => BrokerSettings
  readonly database: Database
  readonly worker: Worker
  readonly intake: Intake
  readonly snapshots: Snapshots
  readonly answers: Answers
  readonly notices: Pick<Notices, 'admitted'>
  readonly posts: OutboxPosts
  readonly bus: Bus
  /** What gateways may see. */
  readonly identity: Identity
  readonly reload: () => Promise<void>
}

/** Brokers at work. */
export interface RunningBrokers {
  /** The configuration is another one. */
  changed(): void
  stop(): Promise<void>
}

const never = new AbortController().signal

/** Takes calls from brokers, and shows gateways what there is to call. */
export function startBrokers(options: StartBrokersOptions): RunningBrokers {
  const { brokers, settings, database, snapshots, answers, notices, posts, bus, identity } = options
  const view = createGatewayView(identity)
  const redis =
    brokers.redis === undefined || settings.redis === undefined || !settings.transports.includes('redis')
      ? undefined
      : startRedisParts({ ...options, redis: brokers.redis, settings: () => redisOf(options), view })
  const tenants = new Map([
    [settings.kafka?.topic, settings.kafka?.identity?.tenant ?? identity.tenant],
    [settings.redis?.stream, settings.redis?.tenant],
  ])
  const open = openDoors({
    ...{ doors: brokers.doors, worker: options.worker, bus },
    session: (session) => sessionOf(redis, session),
    understand: (decoded, sender) => understand(decoded, sender, snapshots, view, redis),
    async submit(input, sender, reply) {
      const submitted = await options.intake.submit(input, sender, { kind: 'broker', reply })
      if (reply !== undefined) {
        notices.admitted(submitted.callId, input.tool ?? input.kind, reply, submitted.repeated)
      }
      return submitted
    },
    async attach(callId, address, { tenant }) {
      await posts.post([
        { callId, tenant, kind: 'reply', target: address.to, body: JSON.stringify(address), waits: true },
      ])
    },
    refuse: createRefuse({
      ...{ database, answers, bus, now: () => new Date() },
      tenantOf: (source) => tenants.get(source) ?? identity.tenant,
      transportOf: (source) => (source === settings.kafka?.topic ? 'kafka' : 'redis'),
    }),
  })
  const name = async (): Promise<void> => {
    const names = await view.names(snapshots.current.executor)
    brokers.naming.nameFor = (id) => names.nameFor(id.split(':').slice(0, 2).join(':'))
  }
  void name().catch(() => undefined)
  return {
    changed() {
      void name().catch(() => undefined)
      redis?.changed()
    },
    async stop() {
      await open.stop()
      await redis?.stop()
    },
  }
}

/** As the configuration has it now; where calls come from stays as it was at the start. */
function redisOf({ latest, settings }: Pick<StartBrokersOptions, 'latest' | 'settings'>): RedisSettings {
  return (latest().redis ?? settings.redis) as RedisSettings
}

async function sessionOf(redis: RedisParts | undefined, session: string): Promise<Identity> {
  if (redis !== undefined) return redis.session(session)
  throw new ToolError('UNAUTHENTICATED', 'There are no sessions here.')
}

/** The call with the id of its tool in the place of the name that a gateway has for it. */
async function understand(
  { input, catalogHash, binary = [] }: Decoded & { kind: 'call' },
  sender: Identity,
  snapshots: Snapshots,
  view: ReturnType<typeof createGatewayView>,
  redis: RedisParts | undefined,
): Promise<CallInput> {
  const { tool: name } = input
  if (name === undefined) return input
  return snapshots.use(async ({ executor }) => {
    if (catalogHash === undefined || redis === undefined) {
      return { ...input, tool: await view.find(executor, name, never, sender) }
    }
    try {
      const entry = executor.find(await view.find(executor, name, never, sender), { identity: sender })
      await redis.judge(entry, catalogHash)
      refuseBinary(entry.tool.inputSchema, binary)
      // Whoever named no catalog holds to none.
      return { ...input, tool: entry.id, ...(catalogHash === '' ? {} : { schemaDigest: entry.callDigest }) }
    } catch (error) {
      // A tool that is gone was there when its caller looked; he is to look again.
      if (ToolError.is(error) && error.code === 'TOOL_NOT_FOUND') await redis.judge(undefined, catalogHash)
      throw error
    }
  })
}
