import { setTimeout as sleep } from 'node:timers/promises'
import type { Tracer } from '@gantry/core'
import { postgresTransport } from '../brokers/transports/postgres.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
import type { Snapshots } from '../config/snapshots.ts'
import type { Bus } from '../observe/bus.ts'
import type { Waiters } from '../reply/waiters.ts'
import type { CallStore, Claim, ClaimOptions } from '../storage/calls/call-store.ts'
import { type ClaimTerms, createBegin, stillHeld } from '../storage/calls/lease-time.ts'
import type { Database } from '../storage/databases/database.ts'
import { missingTool } from './call-decisions.ts'
import { createExecution, type ExecutionParts } from './execute/execute-call.ts'
import { type LeaseListener, type Leases, localLeases } from './lease/leases.ts'
import { threadLeases } from './lease/start-lease-thread.ts'
import type { WorkerPorts } from './ports.ts'
import { createOffload } from './record/offload-result.ts'
import type { Recorder } from './record/recorder.ts'
import type { ToolOffers, Upkeep } from './upkeep.ts'
import { createWorker, type Worker } from './worker.ts'

export interface QueueWorkerParts extends ExecutionParts {
  readonly store: CallStore
  readonly recorder: Recorder
  readonly snapshots: Snapshots
  readonly bus: Bus
  readonly tracer: Tracer | undefined
  readonly settings: ServiceSettings
  /** The claim options of this process; its labels grow by the tools that calls wait for and that it has. */
  readonly claim: ClaimTerms
  readonly offers: ToolOffers
  /** The current shares of tenants. */
  readonly shares: NonNullable<WorkerPorts['shares']>
  readonly waiters: Pick<Waiters, 'awaits'>
  readonly reply: WorkerPorts['reply']
  /** Aborts when the service has stopped: a file that is not stored by then is not waited for. */
  readonly signal: AbortSignal
}

const mostAhead = 1_000

/** The worker of the calls in the queue of the database. */
export function createQueueWorker(parts: QueueWorkerParts): Worker {
  const { store, recorder, snapshots, bus, settings, offers, artifacts, signal } = parts
  const { leaseMs } = parts.claim
  const claimNow = (): ClaimOptions => {
    const shares = parts.shares()
    const claim = parts.claim.now()
    const labels = { ...claim.labels, ...offers.labels }
    return { ...claim, labels, busy: worker.busy, ...(shares === undefined ? {} : { shares }) }
  }
  const transport = postgresTransport({ store, claim: claimNow, freeSlots: () => worker.claimable })
  const newcomers = async (most: number, filled: ReadonlyMap<string, number>): Promise<readonly Claim[]> => {
    const askedAt = performance.now()
    const claims = await store.claim(most, { ...claimNow(), busy: Object.fromEntries(filled), newcomers: true })
    return stillHeld(store, claims, { askedAt, leaseMs })
  }
  const { execute, release } = createExecution(parts)
  const worker: Worker = createWorker(
    {
      store,
      transport,
      recorder,
      snapshots,
      bus,
      tracer: parts.tracer,
      shares: parts.shares,
      newcomers,
      leases: (news) => leasesOf(parts, news),
      versions: { missing: missingTool, waitMs: settings.versionWaitMs },
      begin: createBegin(store, { leaseMs }),
      execute,
      release,
      offload: createOffload({ artifacts, limits: settings, signal }),
      // Others may wait for a call under a key, which can be submitted again, and for one whose id its caller knows.
      awaits: ({ callId, call, unflushed }) =>
        unflushed === true && call.key === undefined && parts.waiters.awaits(callId),
      reply: parts.reply,
      now: () => new Date(parts.now()),
      random: Math.random,
      pause: (ms, aborted) => sleep(ms, undefined, { signal: aborted }).catch(() => undefined),
    },
    { slots: settings.slots, maxDeaths: settings.maxDeaths, ahead: mostAhead },
  )
  return worker
}

/** Subscribes to notifications of the database: calls to claim, tools that calls wait for, and calls to cancel. */
export function followQueue(
  database: Pick<Database, 'listen'>,
  worker: Pick<Worker, 'wake' | 'cancel'> | undefined,
  upkeep: Pick<Upkeep, 'nudge'>,
): readonly Promise<() => Promise<void>>[] {
  return [
    database.listen('gantry_ready', () => worker?.wake()),
    database.listen('gantry_needs', () => upkeep.nudge()),
    database.listen('gantry_cancel', (callId) => callId !== undefined && worker?.cancel(callId)),
  ]
}

/** A database that other processes use needs its leases renewed even while a tool blocks this thread. */
function leasesOf({ store, settings, claim }: QueueWorkerParts, news: LeaseListener): Leases {
  const { databaseUrl: url, blockedMs } = settings
  const { leaseMs } = claim
  return url === undefined ? localLeases(store, leaseMs, news) : threadLeases({ url, leaseMs, blockedMs }, news)
}
