import type { Identity } from '@gantry/contract'
import type { Tracer } from '@gantry/core'
import { type AdmissionLimits, openLimits } from '../admission/limits.ts'
import { type Brokers, noBrokers, untilConsuming } from '../brokers/open-brokers.ts'
import type { BrokerSettings } from '../config/broker-settings.ts'
import { owner, type ServiceSettings, workerName } from '../config/service-settings.ts'
import { type Additions, createSnapshots, type Snapshot, type Snapshots } from '../config/snapshots.ts'
import type { Service } from '../http/service.ts'
import type { Bus } from '../observe/bus.ts'
import type { ResponseWatch } from '../observe/dependency-health.ts'
import { type Relay, startSending } from '../reply/relay.ts'
import type { ArtifactFiles } from '../storage/artifacts/fallback.ts'
import type { SealKey } from '../storage/audit/entries.ts'
import type { Database } from '../storage/databases/database.ts'
import { startPeriodicJobs } from '../storage/periodic-jobs.ts'
import { retentionJobs } from '../storage/retention.ts'
import type { ServerComparison, SharedTexts } from '../storage/server-comparison.ts'
import { compareServers } from './compare-servers.ts'
import { type Configuration, loadConfiguration } from './load-configuration.ts'
import { openReplies, type Replies } from './open-replies.ts'
import { openStorage, type Storage } from './open-storage.ts'
import { createObservers, type Observers, startApi } from './start-api.ts'
import { startBrokers } from './start-brokers.ts'
import { createWorkerParts, startWorker, type WorkerParts } from './start-worker.ts'

export interface StartOptions {
  readonly settings: ServiceSettings
  /** Open and migrated; closed by the caller. */
  readonly database: Database
  readonly files: ArtifactFiles
  readonly bus: Bus
  /** Reads the current configuration, and creates its executor. */
  readonly snapshot: (additions: Additions) => Promise<Snapshot>
  /** The signing key of a tenant's callbacks. */
  readonly callbackKey: (tenant: string) => Promise<Uint8Array | undefined>
  /** The signing key of messages about approvals; that of callbacks when absent. */
  readonly approvalKey?: () => Promise<Uint8Array | undefined>
  /** Keys and settings that must be equal in all processes of the service; none are compared when absent. */
  readonly sharedTexts?: () => Promise<SharedTexts>
  /** The keys of the audit seals. */
  readonly auditKeys?: readonly SealKey[]
  /** Brokers that calls are consumed from; closed by the caller. */
  readonly brokers?: Brokers
  /** The name of this process, unique among all. */
  readonly name?: string
  /** The identity that decides which tools gateways see. */
  readonly identity?: Identity
  /** The current settings of brokers; those of the start when absent. */
  readonly latest?: () => BrokerSettings
  /** Absent, nothing is traced. */
  readonly tracer?: Tracer
}

/** A running service, in its roles. */
export interface RunningService {
  readonly service: Service
  /** Reports when the database stops answering; undefined where it is part of this process. */
  readonly health: ResponseWatch | undefined
  /** Resolves once every broker has answered, or the signal aborts. */
  consuming(signal: AbortSignal): Promise<void>
  /** Reloads the configuration; running calls keep the one they began with. Rejects when it is invalid. */
  reload(): Promise<void>
  /** Admits no more calls, releases or finishes its calls within the grace period, and closes everything it opened. */
  stop(graceMs: number): Promise<void>
}

/** The options of a service with all defaults applied. */
export interface ServiceParts extends Omit<StartOptions, 'tracer'> {
  readonly auditKeys: readonly SealKey[]
  readonly brokers: Brokers
  readonly name: string
  readonly identity: Identity
  readonly latest: () => BrokerSettings
  readonly tracer: Tracer | undefined
}

const probeMs = 1_000
const lookMs = 1_000
const waitingMs = 5_000
const compareMs = 10_000

/** Wires a service and starts it: storage, configuration, worker, API, brokers. Nothing here runs for a call. */
export async function startService(options: StartOptions): Promise<RunningService> {
  const parts = decided(options)
  const { settings, database, brokers } = parts
  const life = new AbortController()
  const { signal } = life
  const snapshots = createSnapshots()
  const storage = await openStorage(parts, snapshots)
  const configuration = await loadConfiguration(parts, storage, snapshots)
  const replies = await openReplies(parts, storage, snapshots, signal)
  const limits = openLimits({ store: storage.store, database, redis: brokers.redis, settings })
  const work = await createWorkerParts(parts, { storage, snapshots, replies, limits, signal })
  const comparison = await compareServers(parts, storage, snapshots)
  const observers = createObservers(parts, { storage, snapshots, limits, work, comparison, signal })
  const unlisten = await startWorker(work, storage, replies, configuration)
  const relay = startRelaying(parts, { storage, snapshots, replies, work })
  const stopJobs = startJobs(parts, { storage, configuration, replies, limits, observers, comparison, signal })
  await limits.depth.look()
  observers.lifecycle.change('ready')
  await observers.heartbeat().catch(() => undefined)
  const api = startApi(parts, { storage, snapshots, configuration, replies, limits, work, observers, comparison })
  const consumers = startBrokers(parts, { storage, snapshots, configuration, replies, work, api })
  return {
    service: api.service,
    health: database.exclusive ? undefined : observers.health,
    reload: configuration.reload,
    consuming: (aborted) => untilConsuming(brokers.sources, aborted),
    async stop(graceMs) {
      observers.lifecycle.change('draining')
      const consumed = consumers?.stop()
      await observers.heartbeat().catch(() => undefined)
      await consumed
      api.intake.close()
      const jobsDone = stopJobs()
      await work.worker?.stop(graceMs)
      await api.unanswered.close()
      await replies.answers.settled()
      replies.notices.close()
      await work.upkeep.stop()
      await relay?.stop(AbortSignal.timeout(Math.max(1_000, graceMs / 2)))
      life.abort()
      await jobsDone
      await closeParts(parts, { storage, configuration, replies, work, observers, unlisten })
      await snapshots.close()
    },
  }
}

/** The parts of a running service. */
interface Running {
  readonly storage: Storage
  readonly snapshots: Snapshots
  readonly configuration: Configuration
  readonly replies: Replies
  readonly limits: AdmissionLimits
  readonly work: WorkerParts
  readonly observers: Observers
  readonly comparison: ServerComparison
  readonly signal: AbortSignal
  /** Ends the subscriptions to notifications of the database. */
  readonly unlisten: readonly (() => Promise<void>)[]
}

/** Sends callbacks and replies of the outbox; undefined in a process without the role `relay`. */
function startRelaying(
  { settings, database, bus, callbackKey, approvalKey = () => callbackKey('') }: ServiceParts,
  { storage, snapshots, replies, work }: Pick<Running, 'storage' | 'snapshots' | 'replies' | 'work'>,
): Relay | undefined {
  if (!settings.roles.includes('relay')) return undefined
  const { answers, notifications } = replies
  const { views, approvals } = storage
  const { notAfter } = work.claim
  const keys = { callbackKey, approvalKey }
  return startSending({
    database,
    views,
    approvals,
    answers,
    notifications,
    bus,
    settings,
    ...keys,
    snapshots,
    notAfter,
  })
}

function startJobs(
  { settings, database, bus, auditKeys }: ServiceParts,
  {
    storage,
    configuration,
    replies,
    limits,
    observers,
    comparison,
    signal,
  }: Pick<Running, 'storage' | 'configuration' | 'replies' | 'limits' | 'observers' | 'comparison' | 'signal'>,
): () => Promise<void> {
  const { files, posts, audit } = storage
  return startPeriodicJobs(
    [
      { name: 'dependencies', everyMs: probeMs, work: observers.health.probe },
      { name: 'servers', everyMs: compareMs, firstMs: lookMs, work: comparison.look },
      { name: 'look', everyMs: lookMs, work: () => replies.waiters.look().catch(() => undefined) },
      { name: 'waiting answers', everyMs: waitingMs, work: () => posts.wakeWaiting(1_000) },
      { name: 'spooled files', everyMs: waitingMs, work: async () => files.drain?.(signal) },
      ...configuration.policies.jobs,
      ...audit.jobs,
      ...limits.jobs,
      ...retentionJobs(database, files, settings, { auditKeys, signal }),
    ],
    bus,
  )
}

/** Closes what a stopped service no longer uses; the configuration's executor is closed last. */
async function closeParts(
  { name }: ServiceParts,
  {
    storage,
    configuration,
    replies,
    work,
    observers,
    unlisten,
  }: Pick<Running, 'storage' | 'configuration' | 'replies' | 'work' | 'observers' | 'unlisten'>,
): Promise<void> {
  await work.writer.close()
  await work.recorder.drain().catch(() => undefined)
  await storage.audit.close()
  await storage.workers.leave(name).catch(() => undefined)
  await configuration.circuits.stop()
  await configuration.policies.close()
  await Promise.all(unlisten.map((end) => end()))
  await replies.notifications.close()
  observers.metrics.close()
  observers.health.close()
}

function decided(options: StartOptions): ServiceParts {
  const { settings, auditKeys = [], brokers = noBrokers, name = workerName(), identity = owner, tracer } = options
  const { latest = () => settings.brokers } = options
  return { ...options, auditKeys, brokers, name, identity, latest, tracer }
}
