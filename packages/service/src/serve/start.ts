import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { Identity } from '@gantry/contract'
import { createRedactionMark, holds, type Tracer } from '@gantry/core'
import { createIntake } from '../admission/intake.ts'
import { createLimiting } from '../admission/limiting.ts'
import { openPolicies } from '../admission/policy/policies.ts'
import { createDepthGauge } from '../admission/queue-depth.ts'
import { sessionHolders } from '../admission/session-holders.ts'
import { sessionLabel, sessionTag } from '../admission/session-placement.ts'
import { tracedIntake } from '../admission/traced-intake.ts'
import { createUnansweredClaims } from '../admission/unanswered-claims.ts'
import { withSlot } from '../admission/with-slot.ts'
import { type Brokers, noBrokers } from '../brokers/open-brokers.ts'
import { postgresTransport } from '../brokers/transports/postgres.ts'
import { untilConsuming } from '../brokers/until-consuming.ts'
import type { BrokerSettings } from '../config/broker-settings.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
import { createSnapshots, type Snapshot } from '../config/snapshots.ts'
import { storedQuotas } from '../config/tenant-limits.ts'
import { createKeyControl } from '../http/authentication/key-control.ts'
import type { Service } from '../http/service.ts'
import { cancelling, createDoors } from '../http/service-api.ts'
import type { Bus } from '../observe/bus.ts'
import { createDependencyHealth } from '../observe/dependency-health.ts'
import { createWatch } from '../observe/readiness.ts'
import { openCallNews } from '../reply/call-notifications.ts'
import { startSending } from '../reply/send-outbox.ts'
import { createWaiters } from '../reply/waiters.ts'
import { approvalRecords } from '../storage/approvals/approvals.ts'
import { ownerApproval } from '../storage/approvals/owner-approval.ts'
import { type Files, probeFiles, reportingFiles } from '../storage/artifacts/artifact-health.ts'
import { artifactRecords } from '../storage/artifacts/artifact-records.ts'
import { callerArtifacts } from '../storage/artifacts/caller-artifacts.ts'
import { keepPayload, readPayload, releasePayload } from '../storage/artifacts/payload.ts'
import { createAuditing } from '../storage/audit/auditing.ts'
import type { SealKey } from '../storage/audit/seals.ts'
import { callViews } from '../storage/call-views.ts'
import { createCallIds } from '../storage/calls/call-id.ts'
import { sqlCallStore } from '../storage/calls/sql.ts'
import { createDatabaseClock } from '../storage/database-clock.ts'
import type { Database } from '../storage/databases/database.ts'
import { deadLetterRecords } from '../storage/dead-letters/dead-letters.ts'
import { eventRecords } from '../storage/events.ts'
import { journalRecords } from '../storage/journal.ts'
import { keyRecords } from '../storage/keys/api-keys.ts'
import { type KnowledgeOptions, knowledgeRecords } from '../storage/knowledge/knowledge.ts'
import { startChores } from '../storage/periodic-jobs.ts'
import { redactionKey } from '../storage/redaction-key.ts'
import { cleaningChores } from '../storage/retention-jobs.ts'
import { workerRecords } from '../storage/workers.ts'
import { createApprover } from '../worker/execute/approver.ts'
import { createEventWriter } from '../worker/execute/event-writer.ts'
import { createFleetCircuits } from '../worker/fleet-circuits.ts'
import { govern } from '../worker/record/offload-result.ts'
import { openOutcomeSpool } from '../worker/record/open-spool.ts'
import { createRecorder } from '../worker/record/recorder.ts'
import { createReplaying } from '../worker/replay/replay-calls.ts'
import { createOffers } from '../worker/tool-offers.ts'
import { artifactTools } from '../worker/tools/artifact-tools.ts'
import { taskTools } from '../worker/tools/task-tools.ts'
import { createUpkeep } from '../worker/upkeep.ts'
import type { Additions } from './additions.ts'
import { createAnswering } from './answering.ts'
import { startBrokers } from './brokers/start.ts'
import { openMetrics } from './open-metrics.ts'
import { createReload } from './reload.ts'
import { composeWorker } from './work.ts'

export interface StartOptions {
  readonly settings: ServiceSettings
  /** Open, with its tables; closed by whoever opened it. */
  readonly database: Database
  readonly files: Files
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

/** With the database to itself, a process cannot lose a lease while it lives. */
const exclusiveLeaseMs = 24 * 3_600_000
const upkeepMs = 1_000
const probeMs = 1_000
const waitingMs = 5_000
/** A claim that the database starts later than this takes nothing; less than a client waits for its answer (35 s). */
const claimWithinMs = 20_000

/** Who somebody is of whom the configuration says nothing else. */
export const owner: Identity = { principal: 'owner', tenant: 'default', permissions: ['*'] }

/** A name that no other process has. */
export function workerName(): string {
  return `${hostname()}-${process.pid}-${randomBytes(3).toString('hex')}`
}

/** Puts a service together and to work: storage, then work, then doors. */
export async function startService(options: StartOptions): Promise<RunningService> {
  const { settings, database, bus } = options
  const files = reportingFiles(options.files, bus)
  const { brokers = noBrokers, name = workerName() } = options
  const leaseMs = database.exclusive ? exclusiveLeaseMs : settings.leaseMs
  const life = new AbortController()
  const roles = new Set(settings.roles)

  const store = sqlCallStore(database, [...brokers.publishers.keys()])
  const artifacts = artifactRecords(database, files, {
    quotas: (owner) => storedQuotas(settings.tenants, owner),
    refused: (refusal) => bus.emit('storage:refused', refusal),
  })
  const views = callViews(database, artifacts)
  const events = eventRecords(database)
  const workers = workerRecords(database)
  const clock = createDatabaseClock()
  await clock.learn(() => workers.time())
  const key = await redactionKey(database)
  const approvals = approvalRecords(database, {
    ...{ artifacts, maxBytes: () => settings.artifactBytes },
    self: ownerApproval({ owner: options.identity ?? owner, exclusive: database.exclusive, settings }),
  })
  const newId = createCallIds()
  const circuits = createFleetCircuits({
    ...{ database, bus, worker: name },
    circuits: () => snapshots.current.executor.circuits,
  })
  const auditing = createAuditing({
    ...{ database, bus, keys: options.auditKeys ?? [] },
    version: () => snapshots.current.version,
  })
  const { errorText = false } = settings.brokers.redis ?? {}
  const additions = {
    audit: auditing.audit,
    tools: [...artifactTools(artifacts), ...(brokers.codecs.has('stargazer') ? taskTools(views, { errorText }) : [])],
    artifacts: callerArtifacts({ database, store: files, artifacts, maxBytes: () => settings.artifactBytes }),
    knowledge: (options: KnowledgeOptions) => knowledgeRecords(database, options),
    trials: circuits.trials,
    tracer: options.tracer,
    now: clock.now,
    redactionKey: key,
    approver: createApprover(approvals, { key, entering: store.entering }),
  }
  const policies = await openPolicies({ database, snapshots: () => snapshots, changed: () => doors?.changed() })
  const snapshots = createSnapshots(policies.over(await options.snapshot(additions)))
  const spool = await openOutcomeSpool(settings, database, brokers, bus)
  const recorder = createRecorder({ store, spool, bus, append: events.append })
  const writer = createEventWriter({ records: events })
  const waiters = createWaiters((callIds) => views.outcomes(callIds, life.signal))
  const depth = createDepthGauge(store, () => settings.maxQueued)
  /** The heartbeat of this process, which is also what shows whether the database takes what is written. */
  const report = (): Promise<void> =>
    clock.learn(() =>
      workers.report({
        ...{ worker: name, host: hostname(), pid: process.pid, roles: settings.roles, slots: settings.slots },
        running: worker?.running ?? 0,
        state: watch.state,
      }),
    )
  const health = createDependencyHealth({
    bus,
    dependencies: {
      database: { run: report, always: true },
      spool: { run: spool.probe },
      artifacts: { run: () => probeFiles(files, life.signal) },
      ...Object.fromEntries(brokers.doors.map(({ kind }) => [kind, null])),
    },
  })
  const metrics = openMetrics({
    ...{ bus, database, snapshots, recorder, depth, brokers, settings, health, worker: () => worker },
  })
  const answering = createAnswering({
    ...{ brokers, database, artifacts, views, settings, signal: life.signal },
    mayBackground: (tool) => mayBackground(tool, snapshots.current),
  })
  const { posts, answers, notices, writeBacks, cache } = answering
  const watch = createWatch({
    ...{ bus, health, spooled: () => recorder.spooled },
    unrecorded: () => worker?.unrecorded ?? [],
  })

  const tag = sessionTag(name)
  const claim = { worker: name, leaseMs, labels: { ...settings.labels, [sessionLabel]: tag } }
  const notAfter = database.exclusive ? undefined : () => clock.now() + claimWithinMs
  const timed = () => ({ ...claim, ...(notAfter === undefined ? {} : { notAfter: notAfter() }) })
  /** Of tools that calls wait for, those that this worker has. */
  const offers = createOffers((tool, digest) => snapshots.current.executor.missing(tool, digest))
  const claimNow = () => ({ ...timed(), labels: { ...claim.labels, ...offers.labels } })
  const limiting = createLimiting({ store, database, redis: brokers.redis, settings })
  const transport = postgresTransport({
    ...{ store, claim: () => limiting.claim(claimNow(), worker), room: () => worker?.claimable ?? 0 },
  })
  const worker: ReturnType<typeof composeWorker> | undefined = roles.has('worker')
    ? composeWorker({
        ...{
          store,
          transport,
          recorder,
          snapshots,
          writer,
          writeBacks,
          notices,
          cache,
          bus,
          settings,
          leaseMs,
          now: clock.now,
        },
        ...{ tracer: options.tracer, gate: limiting.gate, awaits: waiters.awaits },
        shares: limiting.gate.shares,
        newcomers: (most) => limiting.newcomers(most, claimNow(), worker),
        journal: journalRecords(database),
        payload: (claim, signal) => readPayload(claim.call, artifacts, signal),
        govern: (task, outcome) => govern(task.claim, outcome, { artifacts, limits: settings, signal: life.signal }),
        release: ({ executor }, { call }, { result }) => releasePayload(call, result, { executor, artifacts }),
        reply: ({ callId, call }, { result }) => {
          waiters.tell(callId, result)
          if (call.reply !== undefined) answers.tell(callId, call.reply, result, call.identity.tenant)
        },
      })
    : undefined
  const upkeep = createUpkeep({
    ...{ store, bus, exclusive: database.exclusive, everyMs: upkeepMs, quietMs: leaseMs / 2 },
    silentMs: upkeepMs + leaseMs / 4,
    drain: recorder.drain,
    has: offers.look,
    wake: transport.wake,
    now: Date.now,
  })
  const unanswered = createUnansweredClaims({ store, now: clock.now })
  const taking = createIntake({
    ...{ store, snapshots, depth, bus, worker, newId, settings, gate: limiting.gate, refusals: auditing.refusals },
    ...{ claim: timed, unanswered, health: database.exclusive ? undefined : health },
    keep: (text, callId, identity) => keepPayload(text, { callId, owner: identity, artifacts, limits: settings }),
    withdraw: artifacts.withdraw,
    expect: waiters.expect,
    flushes: database.exclusive,
    present: sessionHolders(workers, roles.has('worker') ? tag : undefined),
  })
  const intake = tracedIntake(taking, options.tracer)
  /** Of these calls those that do not end here, where the worker tells of the outcome itself. */
  const elsewhere = (ids: string): string[] => ids.split(',').filter((callId) => worker?.has(callId) !== true)
  const look = (): Promise<void> => waiters.look().catch(() => undefined)
  const news = await openCallNews(database)
  const unlisten = await Promise.all([
    database.listen('gantry_ready', () => transport.wake()),
    database.listen('gantry_needs', () => upkeep.nudge()),
    database.listen('gantry_cancel', (callId) => callId !== undefined && worker?.cancel(callId)),
    database.listen('gantry_done', (ids) => (ids === undefined ? void look() : waiters.ended(elsewhere(ids)))),
  ])

  await upkeep.begin()
  await circuits.start()
  worker?.start()
  if (worker !== undefined) upkeep.start()
  const relay = roles.has('relay')
    ? startSending({
        ...{ database, views, answers, news, bus, settings, notAfter, callbackKey: options.callbackKey },
        executor: () => snapshots.current.executor,
      })
    : undefined
  const stopChores = startChores(
    [
      { name: 'dependencies', everyMs: probeMs, work: health.probe },
      { name: 'look', everyMs: upkeepMs, work: look },
      ...policies.chores,
      { name: 'waiting answers', everyMs: waitingMs, work: () => posts.wakeWaiting(1_000) },
      ...auditing.chores,
      ...limiting.chores,
      { name: 'spooled files', everyMs: waitingMs, work: async () => files.drain?.(life.signal) },
      ...cleaningChores(database, files, settings, { auditKeys: options.auditKeys ?? [], signal: life.signal }),
    ],
    bus,
  )
  await depth.look()
  watch.change('ready')
  await report().catch(() => undefined)

  const letters = deadLetterRecords({
    ...{ database, newId, mark: createRedactionMark(key) },
    prepare: (call) => withSlot(call, snapshots.current.executor),
  })
  const service = createDoors({
    ...{ intake, store, snapshots, views, events, artifacts, letters, workers, waiters, news, circuits },
    keys: createKeyControl(keyRecords(database), cancelling(store, auditing.note)),
    policy: policies.control,
    audit: auditing.control,
    note: auditing.note,
    approvals,
    replay: createReplaying({ database, views, artifacts, snapshots, limits: settings }),
    ready: watch.check,
    async health(identity) {
      const all = holds(identity, 'gantry:tenants')
      const held = (worker?.unrecorded ?? []).filter(({ tenant }) => all || tenant === identity.tenant)
      const { ready, problems, notes = [] } = await watch.check()
      return { worker: name, ready, problems, notes, dependencies: health.list(), unrecorded: held }
    },
    metrics: metrics.read,
  })
  const reload = createReload(async () => {
    snapshots.replace(policies.over(await options.snapshot(additions)))
    await circuits.sync()
    doors?.changed()
  }, bus)
  const doors =
    worker === undefined || brokers.doors.length === 0
      ? undefined
      : startBrokers({
          ...{
            brokers,
            settings: settings.brokers,
            database,
            worker,
            intake,
            snapshots,
            answers,
            notices,
            posts,
            bus,
            reload,
          },
          identity: options.identity ?? owner,
          latest: options.latest ?? (() => settings.brokers),
        })
  return {
    service,
    reload,
    consuming: (signal) => untilConsuming(brokers.doors, signal),
    async stop(graceMs) {
      watch.change('draining')
      const shut = doors?.stop()
      await report().catch(() => undefined)
      await shut
      intake.close()
      const choresDone = stopChores()
      await worker?.stop(graceMs)
      await unanswered.close()
      await answers.settled()
      notices.close()
      await upkeep.stop()
      await relay?.stop(AbortSignal.timeout(Math.max(1_000, graceMs / 2)))
      life.abort()
      await choresDone
      await writer.close()
      await recorder.drain().catch(() => undefined)
      await auditing.close()
      await workers.leave(name).catch(() => undefined)
      await circuits.stop()
      await policies.close()
      await Promise.all(unlisten.map((end) => end()))
      await news.close()
      metrics.close()
      health.close()
      await snapshots.close()
    },
  }
}

/** Whether calls of a tool may get an interim answer; what is not in the catalog has nothing against it. */
function mayBackground(tool: string, { executor }: Snapshot): boolean {
  try {
    return executor.catalog.find(tool).tool.background !== false
  } catch {
    return true
  }
}
