import { sessionLabel, sessionTag } from '../admission/admit.ts'
import type { AdmissionLimits } from '../admission/limits.ts'
import type { Snapshots } from '../config/snapshots.ts'
import { messageEncoder } from '../reply/broker-replies.ts'
import { followOutcomes, replyHere } from '../reply/waiters.ts'
import { type ClaimTerms, claimTerms } from '../storage/calls/lease-time.ts'
import { createCallEffects, keepFiles } from '../worker/execute/effects.ts'
import { createEventWriter, type EventWriter } from '../worker/execute/event-writer.ts'
import { createResultCache } from '../worker/execute/result-cache.ts'
import { createQueueWorker, followQueue } from '../worker/queue-worker.ts'
import { createRecorder, type Recorder } from '../worker/record/recorder.ts'
import { openOutcomeSpool } from '../worker/record/redis-spool.ts'
import type { Spool } from '../worker/record/spool.ts'
import { createToolOffers, createUpkeep, type Upkeep } from '../worker/upkeep.ts'
import type { Worker } from '../worker/worker.ts'
import type { Configuration } from './load-configuration.ts'
import type { Replies } from './open-replies.ts'
import type { Storage } from './open-storage.ts'
import type { ServiceParts } from './start.ts'

interface WorkerContext {
  readonly storage: Storage
  readonly snapshots: Snapshots
  readonly replies: Replies
  readonly limits: AdmissionLimits
  /** Aborts when the service has stopped. */
  readonly signal: AbortSignal
}

/** The parts that execute calls, created but not started. */
export interface WorkerParts {
  /** Undefined in a process without the role `worker`. */
  readonly worker: Worker | undefined
  readonly claim: ClaimTerms
  readonly spool: Spool
  readonly recorder: Recorder
  readonly writer: EventWriter
  readonly upkeep: Upkeep
}

/** With an exclusive database, a process cannot lose a lease while it lives. */
const exclusiveLeaseMs = 24 * 3_600_000
const upkeepMs = 1_000

export async function createWorkerParts(
  parts: ServiceParts,
  { storage, snapshots, replies, limits, signal }: WorkerContext,
): Promise<WorkerParts> {
  const { settings, database, bus, brokers, name, tracer } = parts
  const { gate } = limits
  const { store, events, artifacts, journal, posts, clock } = storage
  const { waiters, answers, notices } = replies
  const leaseMs = database.exclusive ? exclusiveLeaseMs : settings.leaseMs
  const labels = { ...settings.labels, [sessionLabel]: sessionTag(name) }
  const claim = claimTerms({ worker: name, leaseMs, labels }, database.exclusive ? undefined : clock)
  const spool = await openOutcomeSpool(settings, database, brokers, bus)
  const recorder = createRecorder({ store, spool, bus, append: events.append })
  const writer = createEventWriter({ bus, records: events })
  const offers = createToolOffers(snapshots)
  const create = (): Worker =>
    createQueueWorker({
      store,
      recorder,
      snapshots,
      journal,
      writer,
      effects: createCallEffects({
        posts,
        encode: messageEncoder(brokers.codecs),
        keepFile: keepFiles(artifacts, settings),
      }),
      notices,
      cache: brokers.redis === undefined ? undefined : createResultCache({ redis: brokers.redis }),
      gate,
      shares: gate.shares,
      artifacts,
      offers,
      claim,
      bus,
      tracer,
      settings,
      waiters,
      reply: replyHere(waiters, answers),
      now: clock.now,
      signal,
    })
  const worker = settings.roles.includes('worker') ? create() : undefined
  const upkeep = createUpkeep({
    store,
    bus,
    exclusive: database.exclusive,
    everyMs: upkeepMs,
    quietMs: leaseMs / 2,
    unresponsiveMs: upkeepMs + leaseMs / 4,
    drain: recorder.drain,
    has: offers.look,
    wake: () => worker?.wake(),
    now: Date.now,
  })
  return { worker, claim, spool, recorder, writer, upkeep }
}

/** Subscribes to notifications and starts the worker; returns the functions that end the subscriptions. */
export async function startWorker(
  { worker, upkeep }: WorkerParts,
  { database }: Storage,
  { waiters }: Replies,
  { circuits }: Configuration,
): Promise<readonly (() => Promise<void>)[]> {
  const unlisten = await Promise.all([
    ...followQueue(database, worker, upkeep),
    followOutcomes(database, waiters, worker),
  ])
  await upkeep.begin()
  await circuits.start()
  worker?.start()
  if (worker !== undefined) upkeep.start()
  return unlisten
}
