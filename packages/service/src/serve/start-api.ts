import { sessionHolders } from '../admission/admit.ts'
import { createIntake, type Intake, tracedIntake } from '../admission/intake.ts'
import type { AdmissionLimits } from '../admission/limits.ts'
import { createUnansweredClaims, type UnansweredClaims } from '../admission/unanswered-claims.ts'
import type { Snapshots } from '../config/snapshots.ts'
import { createKeyControl } from '../http/authentication/key-control.ts'
import type { Service } from '../http/service.ts'
import { createCancel, createServiceApi } from '../http/service-api.ts'
import { createDependencyHealth, type DependencyHealth } from '../observe/dependency-health.ts'
import { createMetrics, type Metrics, readFigures, readStored } from '../observe/metrics.ts'
import { createLifecycle, createReadiness, type Lifecycle, type Readiness } from '../observe/readiness.ts'
import { probeFiles } from '../storage/artifacts/fallback.ts'
import { keyRecords } from '../storage/keys/api-keys.ts'
import type { ServerComparison } from '../storage/server-comparison.ts'
import { createHeartbeat } from '../storage/workers.ts'
import { createReplaying } from '../worker/replay/replay.ts'
import type { Configuration } from './load-configuration.ts'
import type { Replies } from './open-replies.ts'
import type { Storage } from './open-storage.ts'
import type { ServiceParts } from './start.ts'
import type { WorkerParts } from './start-worker.ts'

/** The observers of the process; created before it admits calls, because they count from the first one on. */
export interface Observers {
  readonly lifecycle: Lifecycle
  readonly heartbeat: () => Promise<void>
  readonly health: DependencyHealth
  readonly ready: () => Promise<Readiness>
  readonly metrics: Metrics
}

interface ObserversContext {
  readonly storage: Storage
  readonly snapshots: Snapshots
  readonly limits: AdmissionLimits
  readonly work: WorkerParts
  readonly comparison: ServerComparison
  /** Aborts when the service has stopped. */
  readonly signal: AbortSignal
}

export function createObservers(
  parts: ServiceParts,
  { storage, snapshots, limits, work, comparison, signal }: ObserversContext,
): Observers {
  const { settings, bus, brokers, name } = parts
  const { database, workers, clock, files } = storage
  const { worker, recorder, spool } = work
  const { depth } = limits
  const { roles, slots, leaseMs } = settings
  const lifecycle = createLifecycle(bus)
  const self = { worker: name, roles, slots, leaseMs }
  const heartbeat = createHeartbeat({ ...self, workers, clock, running: worker, lifecycle, comparison })
  const health = createDependencyHealth({
    bus,
    dependencies: {
      database: { run: heartbeat, always: true },
      spool: { run: spool.probe },
      artifacts: { run: () => probeFiles(files, signal) },
      ...Object.fromEntries(brokers.sources.map(({ kind }) => [kind, null])),
    },
  })
  const metrics = createMetrics(bus, {
    depth: depth.look,
    running: () => worker?.running ?? 0,
    spooled: () => recorder.spooled,
    isUp: health.isUp,
    unrecorded: () => worker?.unrecorded.length ?? 0,
    connections: () => ({ ...database.load() }),
    sandboxes: () => ({ ...snapshots.current.executor.runtimes.load() }),
    mismatches: () => comparison.mismatches,
    stored: async () => ({ ...(await readStored(database)) }),
    waiting: async () => ({ ...(await readFigures(database)) }),
    tenants: Object.keys(settings.tenants).filter((tenant) => tenant !== '*'),
    lag: Object.fromEntries(
      brokers.sources.map(({ kind, transport }) => [kind, async () => (await transport.lag?.()) ?? Number.NaN]),
    ),
  })
  return {
    lifecycle,
    heartbeat,
    health,
    ready: createReadiness({ bus, lifecycle, health, recorder, worker }),
    metrics,
  }
}

/** The functions that HTTP, MCP and brokers call. */
export interface Api {
  readonly intake: Intake
  readonly service: Service
  /** Claims whose submission was not answered; closed once the worker has stopped. */
  readonly unanswered: UnansweredClaims
}

interface ApiContext {
  readonly storage: Storage
  readonly snapshots: Snapshots
  readonly configuration: Configuration
  readonly replies: Replies
  readonly limits: AdmissionLimits
  readonly work: WorkerParts
  readonly observers: Observers
  readonly comparison: ServerComparison
}

export function startApi(
  parts: ServiceParts,
  { storage, snapshots, configuration, replies, limits, work, observers, comparison }: ApiContext,
): Api {
  const { settings, database, bus, name, tracer } = parts
  const { store, artifacts, views, events, workers, audit, clock, newId } = storage
  const { waiters, notifications } = replies
  const { circuits, policies } = configuration
  const { worker, claim } = work
  const { health, ready, metrics } = observers
  const unanswered = createUnansweredClaims({ store, now: clock.now })
  const submission = createIntake({
    store,
    snapshots,
    depth: limits.depth,
    bus,
    worker,
    claim: claim.now,
    unanswered,
    health: database.exclusive ? undefined : health,
    newId,
    settings,
    gate: limits.gate,
    artifacts,
    refusals: audit.refusals,
    expect: waiters.expect,
    flushes: database.exclusive,
    present: sessionHolders(workers, worker === undefined ? undefined : name),
  })
  const intake = tracedIntake(submission, tracer)
  const service = createServiceApi({
    intake,
    store,
    snapshots,
    views,
    events,
    artifacts,
    deadLetters: storage.deadLetters,
    workers: { list: () => workers.list(comparison.fingerprints) },
    waiters,
    notifications: notifications,
    circuits,
    keys: createKeyControl(keyRecords(database), createCancel(store, audit.note)),
    policy: policies.control,
    audit: audit.control,
    note: audit.note,
    approvals: storage.approvals,
    replay: createReplaying({ database, views, artifacts, snapshots, limits: settings }),
    ready,
    health,
    name,
    worker,
    metrics: metrics.read,
  })
  return { intake, service, unanswered }
}
