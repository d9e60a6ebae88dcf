import { createHash } from 'node:crypto'
import { type ChainResult, codes, type Result, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { ChainWork, CodeWork, WorkEngine } from '@gantry/core'
import { chainFailure } from '@gantry/core/internal/chain/work-engine'
import { canonicalJson } from '@gantry/core/internal/json/canonical'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { WorkflowHandle } from '@temporalio/client'
import { PayloadTooLarge } from '../connection/codec.ts'
import { queueOf, requirePayloadKey, type TemporalClient } from '../connection/connect.ts'
import { resultOf, startOnce } from '../connection/execution.ts'
import {
  type ApprovalDecision,
  type AskedApproval,
  approvalsQuery,
  decideSignal,
  type WorkDocument,
  workWorkflow,
} from '../protocol/work.ts'

/** Hands chains and programs to Temporal, and decides on their calls. */
export interface TemporalEngine extends WorkEngine {
  /** The calls of a work that wait for a decision. Rejects with NOT_FOUND for a work that is not there. */
  approvals(id: string): Promise<readonly AskedApproval[]>
  /** Decides on a call; the first decision counts. Rejects with NOT_FOUND for a call that does not wait. */
  decide(id: string, decision: ApprovalDecision): Promise<void>
}

export interface EngineTimes {
  /** A worker that is silent for this long is lost. */
  readonly heartbeatMs: number
}

const usualHeartbeatMs = 10_000
/** A work without a timeout is waited for until it ends or its caller cancels it. */
const longestMs = 2_147_483_647
const cancelMs = 60_000

/**
 * The engine `temporal`. The journal of a work is the history of a workflow, whose id is that of the work.
 * - Errors: OUTCOME_UNKNOWN when the workflow was terminated, or the server did not come back.
 */
export function createTemporalEngine(
  find: () => Promise<TemporalClient>,
  { heartbeatMs = usualHeartbeatMs }: Partial<EngineTimes> = {},
): TemporalEngine {
  const unaborted = new AbortController().signal
  const hand = async (work: ChainWork | CodeWork, document: WorkDocument): Promise<unknown> => {
    const { signal, id } = work
    const source = await find()
    requirePayloadKey(source.target)
    signal?.throwIfAborted()
    const client = await source.get()
    const digest = digestOf(document)
    const workflowId = workflowIdOf(id)
    const { handle, isNew } = await startOnce(client, workWorkflow, {
      workflowId,
      taskQueue: queueOf(source.target, 'calls'),
      args: [document],
      memo: { digest },
      workflowIdReusePolicy: 'REJECT_DUPLICATE',
    }).catch((cause: unknown) => {
      throw startFault(cause, source.target.address)
    })
    if (!isNew) await requireSame(handle, digest, id)
    const late = Promise.withResolvers<never>()
    late.promise.catch(() => undefined)
    let timer: NodeJS.Timeout | undefined
    const leave = onAbort(signal ?? unaborted, () => {
      void handle.cancel().catch(() => undefined)
      timer = setTimeout(() => late.reject(notCancelled()), cancelMs).unref()
    })
    try {
      return await Promise.race([resultOf(handle, longestMs, unaborted), late.promise])
    } finally {
      leave()
      clearTimeout(timer)
    }
  }
  const handleOf = async (id: string): Promise<WorkflowHandle> => {
    const client = await (await find()).get()
    return client.workflow.getHandle(workflowIdOf(id))
  }
  const approvals = async (id: string): Promise<readonly AskedApproval[]> => {
    const found = await (await handleOf(id)).query<unknown, []>(approvalsQuery).catch((cause: unknown) => {
      throw new ToolError('NOT_FOUND', `Temporal has no work ${id} that a worker can read.`, { cause })
    })
    return Array.isArray(found) ? found.filter(isAsked) : []
  }
  return {
    approvals,
    async decide(id, { approvalId, approved, by, reason }) {
      const waiting = await approvals(id)
      if (!waiting.some((one) => one.approvalId === approvalId))
        throw new ToolError('NOT_FOUND', `No call of the work ${id} waits for the approval ${approvalId}.`)
      const decision: ApprovalDecision = { approvalId, approved, by, ...(reason === undefined ? {} : { reason }) }
      await (await handleOf(id)).signal(decideSignal, decision)
    },
    async chain(work) {
      const startedMs = Date.now()
      const { id, steps, input, limits = {} } = work
      try {
        const end = await hand(work, documentOf('chain', work, { steps, input, limits }, heartbeatMs))
        if (!isChainResult(end)) throw unreadable()
        for (const step of end.steps) if (step.state !== 'pending') notify(work.onStep, step)
        return end
      } catch (error) {
        return chainFailure(id, failureOf(error, work.signal), startedMs)
      }
    },
    async code(work) {
      const startedMs = Date.now()
      const { id, code, language, limits, check } = work
      try {
        const end = await hand(work, documentOf('program', work, { code, language, limits, check }, heartbeatMs))
        if (!isResult(end)) throw unreadable()
        return end
      } catch (error) {
        return codeFailure(id, failureOf(error, work.signal), startedMs)
      }
    },
    async close() {
      const source = await find().catch(() => undefined)
      await source?.close()
    },
  }
}

/** Temporal shows the id; a work is found by it. */
function workflowIdOf(id: string): string {
  return `gantry-${id}`
}

function documentOf(
  kind: WorkDocument['kind'],
  { id, identity, timeoutMs }: ChainWork | CodeWork,
  body: object,
  heartbeatMs: number,
): WorkDocument {
  const seed = createHash('sha256').update(`gantry temporal seed ${id}`).digest().readUInt32BE(0)
  const timeout = timeoutMs === undefined ? {} : { timeoutMs }
  // Members that are undefined are left out, as in the payload.
  return JSON.parse(JSON.stringify({ kind, id, identity, seed: seed % 2 ** 31, heartbeatMs, ...timeout, body }))
}

/** Of everything that decides the outcome, and of the caller. */
function digestOf({ heartbeatMs: _, ...document }: WorkDocument): string {
  return createHash('sha256').update(canonicalJson(document)).digest('hex')
}

/** Another work, or that of another caller, is not taken for this one. */
async function requireSame(handle: Pick<WorkflowHandle, 'describe'>, digest: string, id: string): Promise<void> {
  const { memo } = await handle.describe()
  if (memo?.digest === digest) return
  throw new ToolError('IDEMPOTENCY_CONFLICT', `The id ${id} belongs to another work; choose another id.`, {
    effect: 'none',
  })
}

function startFault(cause: unknown, address: string): ToolError {
  if (ToolError.is(cause)) return cause
  if (cause instanceof PayloadTooLarge) {
    const message = `The work has ${cause.bytes} bytes, more than Temporal takes as a payload; pass less, or store it as an artifact.`
    return new ToolError('INPUT_INVALID', message, { cause, effect: 'none' })
  }
  const message = `The work was not handed to Temporal at ${address}; look at the server and its namespace.`
  return new ToolError('BACKEND_UNAVAILABLE', message, { cause })
}

function failureOf(error: unknown, signal: AbortSignal | undefined): ToolError {
  if (ToolError.is(error)) return error
  if (signal?.aborted === true)
    return new ToolError('CANCELLED', 'The work was cancelled before it was handed over.', { effect: 'none' })
  return new ToolError('INTERNAL', 'The engine temporal failed.', { cause: error })
}

function notCancelled(): ToolError {
  const message = 'The work was cancelled, and no worker ended it in time; its outcome is unknown.'
  return new ToolError('OUTCOME_UNKNOWN', message)
}

function unreadable(): ToolError {
  const message =
    'The Temporal worker gave no outcome that this process can read; compare payloadKey and the versions on both sides.'
  return new ToolError('OUTCOME_UNKNOWN', message)
}

function isChainResult(value: unknown): value is ChainResult {
  return isObject(value) && typeof value.chainId === 'string' && Array.isArray(value.steps) && isStatus(value.status)
}

function isResult(value: unknown): value is Result {
  return isObject(value) && typeof value.callId === 'string' && Array.isArray(value.content) && isStatus(value.status)
}

const statuses: readonly unknown[] = ['ok', ...Object.values(codes).map(({ status }) => status)]

function isStatus(value: unknown): boolean {
  return statuses.includes(value)
}

function isAsked(value: unknown): value is AskedApproval {
  return isObject(value) && typeof value.approvalId === 'string' && typeof value.tool === 'string'
}

/** An observer that throws does not fail the chain. */
function notify(onStep: ChainWork['onStep'], step: ChainResult['steps'][number]): void {
  try {
    onStep?.(step)
  } catch {
    // Ignored: the chain has ended.
  }
}

function codeFailure(callId: string, failure: ToolError, startedMs: number): Result {
  const { chainId: _chain, steps: _steps, ...ended } = chainFailure(callId, failure, startedMs)
  return {
    callId,
    tool: { id: 'code:program', version: '' },
    content: [],
    warnings: [],
    artifacts: [],
    effects: [],
    usage: { wallMs: 0, enforced: {} },
    attempts: 0,
    ...ended,
  }
}
