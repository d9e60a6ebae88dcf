import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { Identity } from '@gantry/contract'
import type { Tracer } from '@gantry/core'
import { openLimits } from '../admission/limits.ts'
import { type Brokers, noBrokers, untilConsuming } from '../brokers/open-brokers.ts'
import type { BrokerSettings } from '../config/broker-settings.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
import { createSnapshots, type Snapshot } from '../config/snapshots.ts'
import type { Service } from '../http/service.ts'
import type { Bus } from '../observe/bus.ts'
import { startSending } from '../reply/send-outbox.ts'
import type { ArtifactFiles } from '../storage/artifacts/fallback.ts'
import type { SealKey } from '../storage/audit/entries.ts'
import type { Database } from '../storage/databases/database.ts'
import { startPeriodicJobs } from '../storage/periodic-jobs.ts'
import { retentionJobs } from '../storage/retention.ts'
import type { Additions } from './create-snapshot.ts'
import { loadConfiguration } from './load-configuration.ts'
import { openReplies } from './open-replies.ts'
import { openStorage } from './open-storage.ts'
import { createObservers, startApi } from './start-api.ts'
import { startBrokers } from './start-brokers.ts'
import { createWorkerParts, startWorker } from './start-worker.ts'

export interface StartOptions {
  readonly settings: ServiceSettings
  /** Open, with its tables; closed by whoever opened it. */
  readonly database: Database
  readonly files: ArtifactFiles
  readonly bus: Bus
  /** Reads the configuration, as it is now, and makes an executor of it. */
  readonly snapshot: (additions: Additions) => Promise<Snapshot>
  /** What the callbacks of a tenant are signed with. */
  readonly callbackKey: (tenant: string) => Promise<Uint8Array | undefined>
  /** What the audit record is sealed with. */
  readonly auditKeys?: readonly SealKey[]
  /** Brokers that calls come from; closed by whoever opened them. */
  readonly brokers?: Brokers
  /** Of this process, among all. */
  readonly name?: string
  /** What gateways may see. */
  readonly identity?: Identity
  /** What the configuration says of brokers now; what it said at the start when absent. */
  readonly latest?: () => BrokerSettings
  /** Absent, nothing is traced. */
  readonly tracer?: Tracer
}

/** A service at work, in the roles that it was given. */
export interface RunningService {
  readonly service: Service
  /** Resolves once every broker that calls come from has answered, or the signal aborts. */
  consuming(signal: AbortSignal): Promise<void>
  /** Reads the configuration again; calls that run keep the one they began with. Rejects when it is wrong. */
  reload(): Promise<void>
  /** Takes no more calls, hands back or ends those that it has within the grace, and closes everything it opened. */
  stop(graceMs: number): Promise<void>
}

/** What a service is started with, all of it decided. */
export interface ServiceParts extends Omit<StartOptions, 'tracer'> {
  readonly auditKeys: readonly SealKey[]
  readonly brokers: Brokers
  readonly name: string
  readonly identity: Identity
  readonly latest: () => BrokerSettings
  readonly tracer: Tracer | undefined
}

/** Identity used when the configuration names none. */
export const owner: Identity = { principal: 'owner', tenant: 'default', permissions: ['*'] }

/** A name that no other process has. */
export function workerName(): string {
  return `${hostname()}-${process.pid}-${randomBytes(3).toString('hex')}`
}

const probeMs = 1_000
const lookMs = 1_000
const waitingMs = 5_000

/** Wires a service and starts it: storage, configuration, worker, API, brokers. Nothing here runs for a call. */
export async function startService(options: StartOptions): Promise<RunningService> {
  const parts = decided(options)
  const { settings, database, bus, name, brokers } = parts
  const life = new AbortController()
  const { signal } = life
  const snapshots = createSnapshots()
  const storage = await openStorage(parts, snapshots)
  const configuration = await loadConfiguration(parts, storage, snapshots)
  const replies = await openReplies(parts, storage, snapshots, signal)
  const { store, views, files } = storage
  const { answers, notices, waiters, notifications } = replies
  const limits = openLimits({ store, database, redis: brokers.redis, settings })
  const work = await createWorkerParts(parts, { storage, snapshots, replies, limits, signal })
  const observers = createObservers(parts, { storage, snapshots, limits, work, signal })
  const unlisten = await startWorker(work, storage, replies, configuration)
  const { callbackKey, auditKeys } = parts
  const { notAfter } = work.claim
  const relay = settings.roles.includes('relay')
    ? startSending({
        database,
        views,
        answers,
        notifications: notifications,
        bus,
        settings,
        callbackKey,
        snapshots,
        notAfter,
      })
    : undefined
  const stopJobs = startPeriodicJobs(
    [
      { name: 'dependencies', everyMs: probeMs, work: observers.health.probe },
      { name: 'look', everyMs: lookMs, work: () => waiters.look().catch(() => undefined) },
      { name: 'waiting answers', everyMs: waitingMs, work: () => storage.posts.wakeWaiting(1_000) },
      { name: 'spooled files', everyMs: waitingMs, work: async () => files.drain?.(signal) },
      ...configuration.policies.jobs,
      ...storage.audit.jobs,
      ...limits.jobs,
      ...retentionJobs(database, files, settings, { auditKeys, signal }),
    ],
    bus,
  )
  await limits.depth.look()
  observers.lifecycle.change('ready')
  await observers.heartbeat().catch(() => undefined)
  const api = startApi(parts, { storage, snapshots, configuration, replies, limits, work, observers })
  const consumers = startBrokers(parts, { storage, snapshots, configuration, replies, work, api })
  return {
    service: api.service,
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
      await answers.settled()
      notices.close()
      await work.upkeep.stop()
      await relay?.stop(AbortSignal.timeout(Math.max(1_000, graceMs / 2)))
      life.abort()
      await jobsDone
      await work.writer.close()
      await work.recorder.drain().catch(() => undefined)
      await storage.audit.close()
      await storage.workers.leave(name).catch(() => undefined)
      await configuration.circuits.stop()
      await configuration.policies.close()
      await Promise.all(unlisten.map((end) => end()))
      await notifications.close()
      observers.metrics.close()
      observers.health.close()
      await snapshots.close()
    },
  }
}

function decided(options: StartOptions): ServiceParts {
  const { settings, auditKeys = [], brokers = noBrokers, name = workerName(), identity = owner, tracer } = options
  const { latest = () => settings.brokers } = options
  return { ...options, auditKeys, brokers, name, identity, latest, tracer }
}
