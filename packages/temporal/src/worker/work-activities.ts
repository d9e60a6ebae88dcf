import { type Result, ToolError } from '@gantry/contract'
import type { Audit, Executor } from '@gantry/core'
import { ApplicationFailure, Context } from '@temporalio/activity'
import {
  type AdvanceAnswer,
  type AdvanceInput,
  advanceActivity,
  type CallAnswer,
  type CallInput,
  type WorkDocument,
} from '../protocol/work.ts'
import { advanceWork } from './advance.ts'
import { asJson } from './as-json.ts'
import { keyOf, resultOf } from './call-requests.ts'
import { createPayloadFit, type PayloadFit } from './payload-fit.ts'
import { isShutDown, shutDownFailure } from './shutdown.ts'
import type { WorkApprovals } from './work-approvals.ts'
import { createWorkJournals } from './work-journals.ts'

export interface WorkOptions {
  /** Runs the calls, each through its pipeline as the identity of the work; its creator closes it. */
  readonly executor: Executor
  /** Those of the executor's approver. */
  readonly approvals: WorkApprovals
  /** That of the executor, for the record of programs; the calls are on it by the executor. */
  readonly audit?: Audit
}

/** The requests and their activities go to the server in one message, which takes 4 MiB in all. */
const mostAtOnceBytes = 1_200_000

/** The activities of a worker that runs handed-over work. A tool is an activity by its own name. */
export function createWorkActivities(options: WorkOptions, fit: PayloadFit) {
  const { executor, approvals, audit } = options
  const fitAtOnce = createPayloadFit(mostAtOnceBytes)
  const journals = createWorkJournals()
  return {
    [advanceActivity]: async (input: AdvanceInput | undefined): Promise<AdvanceAnswer> => {
      const { info, cancellationSignal: signal } = Context.current()
      if (input === undefined) throw unsealed()
      const { workflowId, runId } = info.workflowExecution ?? { workflowId: '', runId: '' }
      const execution = `${workflowId}/${runId}`
      const known = journals.read(execution, input)
      if (known === undefined) return { kind: 'missing' }
      const answer = await advanceWork({ executor, audit, input, signal, ...known }).catch((error: unknown) => {
        throw isShutDown(signal) ? shutDownFailure() : error
      })
      if (answer.kind === 'end') journals.forget(execution)
      return fitting(answer, known.work, fitAtOnce)
    },
    default: async (input: CallInput | undefined): Promise<CallAnswer> => {
      const { info, cancellationSignal: signal } = Context.current()
      // A task that was written without the key, or for another tool than it says.
      if (input === undefined || info.activityType !== input.request.tool) throw unsealed()
      const { id, request, decision } = input
      const beat = startBeat(info.heartbeatTimeoutMs)
      try {
        const callId = `${id}.${request.key}`
        const run = (): Promise<Result> => makeCall(executor, input, callId, info.attempt, signal)
        const { value: result, asked } = await approvals.during(callId, decision, run)
        // What it ended with then is not an outcome of the tool.
        if (isShutDown(signal) && result.status !== 'ok') throw shutDownFailure()
        const of = `${id}/${request.key}`
        if (asked !== undefined && result.error?.code === 'APPROVAL_REQUIRED')
          return { kind: 'asks', of, approval: asked }
        const answer: CallAnswer = { kind: 'result', of, result: asJson(result) as unknown as Result }
        const size = await fit(answer)
        if (size === undefined) return answer
        const message = `The result of ${request.tool} has ${size} bytes, more than Temporal takes; return less, or store it as an artifact.`
        const error = errorOf(new ToolError('RESULT_TOO_LARGE', message))
        return { kind: 'result', of, result: resultOf({ kind: 'error', error }, callId, request.tool, Date.now()) }
      } finally {
        beat.stop()
      }
    },
  }
}

async function makeCall(
  executor: Executor,
  { id, identity, request }: CallInput,
  callId: string,
  attempt: number,
  signal: AbortSignal,
): Promise<Result> {
  const { tool, args, effect, key, timeoutMs } = request
  const idempotencyKey = keyOf(id, key)
  if (attempt > 1 && effect === 'reconcilable') {
    const found = await executor.reconcile(tool, idempotencyKey, { callId, identity, signal })
    if (found.state === 'found') return found.result
    if (found.state === 'unknown') {
      const message = `${tool} was begun by a worker that was lost, and its outcome is unknown. ${found.reason}`
      return resultOf(
        { kind: 'error', error: errorOf(new ToolError('OUTCOME_UNKNOWN', message)) },
        callId,
        tool,
        Date.now(),
      )
    }
  }
  return executor.run(tool, args, {
    callId,
    identity,
    idempotencyKey,
    signal,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  })
}

function errorOf({ code, message, stage, retryable, effect }: ToolError) {
  return { code, message, stage, retryable, effect }
}

function unsealed(): ApplicationFailure {
  return ApplicationFailure.nonRetryable('The task was not sealed with a key of this worker.')
}

/** Requests that do not fit are made with the next advance. */
async function fitting(answer: AdvanceAnswer, work: WorkDocument, fit: PayloadFit): Promise<AdvanceAnswer> {
  const size = await fit(answer)
  if (size === undefined) return answer
  if (answer.kind !== 'waits' || answer.requests.length < 2)
    return { kind: 'end', end: tooLargeEnd(work.id, work.kind, size) }
  return fitting({ ...answer, requests: answer.requests.slice(0, answer.requests.length / 2) }, work, fit)
}

function tooLargeEnd(id: string, kind: 'chain' | 'program', size: number) {
  const message = `What the work returned, or asks at one time, has ${size} bytes, more than Temporal takes; return less, or store it as an artifact.`
  const error = errorOf(new ToolError('RESULT_TOO_LARGE', message))
  const result = resultOf({ kind: 'error', error }, id, 'code:program', Date.now())
  return asJson(kind === 'program' ? result : { ...result, chainId: id, steps: [] })
}

/** A cancellation takes no longer than this to arrive. */
const longestBeatMs = 1_000

/** By heartbeats a cancellation reaches the worker, and its loss is noticed. */
function startBeat(timeoutMs: number | undefined): { stop(): void } {
  const context = Context.current()
  // Not at once: most calls end before the first.
  const timer = setInterval(() => context.heartbeat(), Math.min(longestBeatMs, (timeoutMs ?? longestBeatMs) / 4))
  return { stop: () => clearInterval(timer) }
}
