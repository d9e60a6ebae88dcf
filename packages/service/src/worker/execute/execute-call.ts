import { type ErrorInfo, type Report, ToolError } from '@gantry/contract'
import type { Snapshot } from '../../config/snapshots.ts'
import type { Notices } from '../../reply/notices.ts'
import type { Artifacts } from '../../storage/artifacts/artifact-records.ts'
import { readPayload } from '../../storage/artifacts/payload.ts'
import type { Claim } from '../../storage/calls/call-store.ts'
import { endedOutcome, isPending } from '../../storage/calls/outcomes.ts'
import type { JournalRecords } from '../../storage/journal.ts'
import type { Outcome } from '../ports.ts'
import type { Task } from '../slot-scheduler.ts'
import type { CallEffects } from './effects.ts'
import type { CallReports, EventWriter, Unstored } from './event-writer.ts'
import { createInnerCharges, type InnerGate } from './inner-charges.ts'
import { cachedCall, type ResultCache } from './result-cache.ts'
import { runCall } from './run-call.ts'
import { runDurableChain } from './run-chain.ts'
import { type Paused, runDurableProgram } from './run-program.ts'

export interface ExecutionParts {
  readonly journal: JournalRecords
  readonly writer: EventWriter
  readonly effects: CallEffects
  /** What gateways hear of calls that run. */
  readonly notices: Pick<Notices, 'open'>
  /** The results of tools that may be cached; undefined without Redis. */
  readonly cache: ResultCache | undefined
  /** The limits that calls inside of chains and programs count for. */
  readonly gate: InnerGate
  /** Where large payloads are. */
  readonly artifacts: Artifacts
  /** The time of the database, in milliseconds since 1970. */
  readonly now: () => number
}

/** Executes a claimed call, chain or program. Its reports are stored before it resolves. */
export async function executeCall(
  { executor }: Snapshot,
  task: Task,
  traceparent: string | undefined,
  parts: ExecutionParts,
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
    const payload = await readPayload(claim.call, parts.artifacts, signal).catch((error: unknown) => {
      // A payload that is gone for good ends the call; an unavailable store makes it wait.
      if (ToolError.is(error) && !error.retryable && !signal.aborted) return error
      throw error
    })
    if (ToolError.is(payload)) return endedOutcome(claim.call, payload, claim.lost, new Date(parts.now()))
    if (claim.call.kind === 'call') {
      const writeBack = parts.effects.of(claim)
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
      writeBack: (entry?: string) => parts.effects.of(claim, entry),
    }
    if (claim.call.kind === 'code') return await runDurableProgram({ ...durable, args: payload })
    return await runDurableChain({
      ...durable,
      payload: payload as unknown as Parameters<typeof runDurableChain>[0]['payload'],
    })
  }
}

/** Shows those who follow the call which approval it waits for. */
function waitingReport({ message, details }: ErrorInfo): Report {
  return { kind: 'log', level: 'warn', message: `${message} (approval ${details?.approvalId})` }
}

/** Most calls report nothing, and cost nothing here. What one reports before the store has it waits for that. */
export function lazyReports(
  { callId, fence, entering }: Pick<Claim, 'callId' | 'fence' | 'entering'>,
  writer: Pick<EventWriter, 'open'>,
): CallReports {
  let opened: CallReports | undefined
  let entered = entering === undefined
  const write = (report: Report): void | Promise<void> => {
    entered = true
    opened ??= writer.open({ callId, fence })
    return opened.report(report)
  }
  let waiting: Promise<void> | undefined
  return {
    report(report: Report): void | Promise<void> {
      if (entered) return write(report)
      waiting = entering?.then(
        () => write(report),
        () => undefined,
      )
      return waiting
    },
    async end(): Promise<Unstored> {
      await waiting
      return (await opened?.end()) ?? { events: [], lost: 0 }
    },
  }
}
