import { setTimeout as delay } from 'node:timers/promises'
import { ToolError } from '@gantry/contract'
import {
  type Client,
  isGrpcServiceError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
  type WorkflowHandle,
  type WorkflowStartOptions,
} from '@temporalio/client'
import { PayloadTooLarge } from './codec.ts'

const attempts = 8
const [firstPauseMs, longestPauseMs] = [50, 2_000]

export interface StartedWorkflow {
  readonly handle: WorkflowHandle
  /** False when it was there already. */
  readonly isNew: boolean
}

/**
 * Starts a workflow by an id that no other has; a start whose answer was lost is repeated, and finds the workflow there.
 * - Errors: PayloadTooLarge before anything is sent; else that of the last attempt.
 */
export async function startOnce(
  client: Client,
  type: string,
  options: WorkflowStartOptions & { readonly workflowId: string },
): Promise<StartedWorkflow> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return { handle: await client.workflow.start(type, options), isNew: true }
    } catch (error) {
      const tooLarge = payloadFault(error)
      if (tooLarge !== undefined) throw tooLarge
      if (error instanceof WorkflowExecutionAlreadyStartedError) {
        return { handle: client.workflow.getHandle(options.workflowId), isNew: false }
      }
      if (!isPassing(error) || attempt === attempts) throw error
      await delay(Math.min(longestPauseMs, firstPauseMs * 2 ** attempt))
    }
  }
}

/** The result of a workflow; a server that is restarted meanwhile is asked again. */
export async function resultOf(
  handle: Pick<WorkflowHandle, 'result' | 'workflowId'>,
  withinMs: number,
  signal: AbortSignal,
): Promise<unknown> {
  const end = performance.now() + withinMs
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
    try {
      return await handle.result()
    } catch (error) {
      if (error instanceof WorkflowFailedError) throw unknown(error)
      if (!isPassing(error) || performance.now() > end || signal.aborted) throw unknown(error)
      await delay(pauseMs, undefined, { signal }).catch(() => undefined)
    }
  }
}

function unknown(cause: unknown): ToolError {
  const message = 'Temporal has the work, and its outcome is unknown; look for the workflow in its UI.'
  return new ToolError('OUTCOME_UNKNOWN', message, { cause })
}

function payloadFault(error: unknown): PayloadTooLarge | undefined {
  for (let each = error; each instanceof Error; each = each.cause) if (each instanceof PayloadTooLarge) return each
  return undefined
}

/** DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE and UNKNOWN of gRPC, as a server answers that is started again. */
const passing: readonly number[] = [4, 13, 14, 2]

function isPassing(error: unknown): boolean {
  for (let each = error; each instanceof Error; each = each.cause) {
    if (isGrpcServiceError(each)) return passing.includes(each.code)
  }
  return false
}
