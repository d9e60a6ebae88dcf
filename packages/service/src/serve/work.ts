import { setTimeout as sleep } from 'node:timers/promises'
import { type ErrorInfo, type Report, ToolError } from '@gantry/contract'
import type { Tracer } from '@gantry/core'
import type { Transport } from '../brokers/transports/transport.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
import type { Snapshot, Snapshots } from '../config/snapshots.ts'
import type { Bus } from '../observe/bus.ts'
import type { Notices } from '../reply/notices.ts'
import type { CallStore, Claim } from '../storage/calls/call-store.ts'
import { endedOutcome } from '../storage/calls/ended.ts'
import { isPending } from '../storage/calls/pending.ts'
import { createBegin } from '../storage/calls/still-held.ts'
import type { JournalRecords } from '../storage/journal.ts'
import { cachedCall } from '../worker/execute/cached-call.ts'
import type { WriteBacks } from '../worker/execute/effects.ts'
import type { EventWriter } from '../worker/execute/event-writer.ts'
import { createInnerCharges, type InnerGate } from '../worker/execute/inner-charges.ts'
import { lazyReports } from '../worker/execute/lazy-reports.ts'
import { missingTool } from '../worker/execute/missing-tools.ts'
import type { ResultCache } from '../worker/execute/result-cache.ts'
import { runCall } from '../worker/execute/run-call.ts'
import { runDurableChain } from '../worker/execute/run-chain.ts'
import { type Paused, runDurableProgram } from '../worker/execute/run-program.ts'
import { type LeaseNews, type Leases, localLeases } from '../worker/lease/leases.ts'
import { threadLeases } from '../worker/lease/thread-leases.ts'
import type { Outcome, WorkerPorts } from '../worker/ports.ts'
import type { Recorder } from '../worker/record/recorder.ts'
import type { Task } from '../worker/slot-scheduler.ts'
import { createWorker, type Worker } from '../worker/worker.ts'

export interface WorkParts {
  readonly store: CallStore
  readonly transport: Transport
  readonly recorder: Recorder
  readonly snapshots: Snapshots
  readonly journal: JournalRecords
  readonly writer: EventWriter
  readonly writeBacks: WriteBacks
  /** What gateways hear of calls that run. */
  readonly notices: Pick<Notices, 'open'>
  /** Of the results of tools that say that they may be kept. */
  readonly cache: ResultCache | undefined
  readonly bus: Bus
  readonly tracer: Tracer | undefined
  readonly shares: NonNullable<WorkerPorts['shares']>
  readonly newcomers: NonNullable<WorkerPorts['newcomers']>
  /** The limits that calls inside of chains and programs count for. */
  readonly gate: InnerGate
  readonly settings: ServiceSettings
  readonly leaseMs: number
  /** The time of the database, in milliseconds since 1970. */
  readonly now: () => number
  /** The arguments or the chain of a call. */
  readonly payload: (claim: Claim, signal: AbortSignal) => Promise<unknown>
  readonly govern: WorkerPorts['govern']
  /** Whether somebody here waits for a call. */
  readonly awaits: (callId: string) => boolean
  readonly release: NonNullable<WorkerPorts['release']>
  readonly reply: WorkerPorts['reply']
}

const mostAhead = 1_000

/** A worker on the real parts. */
export function composeWorker(parts: WorkParts): Worker {
  const { store, transport, recorder, snapshots, bus, settings } = parts
  return createWorker(
    {
      store,
      transport,
      recorder,
      snapshots,
      bus,
      tracer: parts.tracer,
      shares: parts.shares,
      newcomers: parts.newcomers,
      leases: (news) => leasesOf(parts, news),
      versions: {
        missing: ({ executor }, call) => missingTool(executor, call),
        waitMs: settings.versionWaitMs,
      },
      begin: createBegin(store, { leaseMs: parts.leaseMs }),
      execute: (snapshot, task, traceparent) => execute(snapshot, task, traceparent, parts),
      govern: parts.govern,
      // Others may wait for one under a key, which can be handed in again, and for one that its caller was told of.
      awaits: ({ callId, call, unflushed }) => unflushed === true && call.key === undefined && parts.awaits(callId),
      release: parts.release,
      reply: parts.reply,
      now: () => new Date(parts.now()),
      random: Math.random,
      pause: (ms, signal) => sleep(ms, undefined, { signal }).catch(() => undefined),
    },
    { slots: settings.slots, maxDeaths: settings.maxDeaths, ahead: mostAhead },
  )
}

/** A database that others can reach needs its leases kept even while a tool blocks this thread. */
function leasesOf({ store, settings, leaseMs }: WorkParts, news: LeaseNews): Leases {
  const { databaseUrl: url, blockedMs } = settings
  return url === undefined ? localLeases(store, leaseMs, news) : threadLeases({ url, leaseMs, blockedMs }, news)
}

/** Runs what was claimed; its reports are kept before it ends. */
async function execute(
  { executor }: Snapshot,
  task: Task,
  traceparent: string | undefined,
  parts: WorkParts,
): Promise<Outcome | Paused> {
  const { claim, controller } = task
  const { signal } = controller
  const reports = lazyReports(claim, parts.writer)
  const notices = parts.notices.open(claim)
  const report = notices === undefined ? reports.report : both
  try {
    const outcome = await run()
    if (!('pausedMs' in outcome) && isPending(outcome)) await reports.report(waitingReport(outcome.error))
    return outcome
  } finally {
    notices?.close()
    task.unstored = await reports.end()
  }

  function both(reported: Report): void | Promise<void> {
    notices?.report(reported)
    return reports.report(reported)
  }

  async function run(): Promise<Outcome | Paused> {
    const payload = await parts.payload(claim, signal).catch((error: unknown) => {
      // What will never be there ends the call; what may come back makes it wait.
      if (ToolError.is(error) && !error.retryable && !signal.aborted) return error
      throw error
    })
    if (ToolError.is(payload)) return endedOutcome(claim.call, payload, claim.lost, new Date(parts.now()))
    if (claim.call.kind === 'call') {
      const writeBack = parts.writeBacks.of(claim)
      const { cache } = parts
      return await cachedCall({ cache, executor, claim, args: payload, now: parts.now }, () =>
        runCall({ executor, claim, args: payload, signal, traceparent, report, writeBack }),
      )
    }
    const durable = {
      executor,
      journal: parts.journal,
      claim,
      charges: createInnerCharges(parts.gate, executor, claim.call.identity),
      signal,
      traceparent,
      report,
      now: parts.now,
      writeBack: (entry?: string) => parts.writeBacks.of(claim, entry),
    }
    if (claim.call.kind === 'code') return await runDurableProgram({ ...durable, args: payload })
    return await runDurableChain({
      ...durable,
      payload: payload as Parameters<typeof runDurableChain>[0]['payload'],
    })
  }
}

/** Whoever follows the call sees what it waits for. */
function waitingReport({ message, details }: ErrorInfo): Report {
  return { kind: 'log', level: 'warn', message: `${message} (approval ${details?.approvalId})` }
}
