import {
  ActivityFailure,
  isCancellation,
  proxyActivities,
  TimeoutFailure,
  type UntypedActivities,
} from '@temporalio/workflow'
import { type NoOutcome, offersActivity, type SandboxTask, sandboxActivity } from '../protocol/sandbox.ts'

/** Runs one program on a worker, once: an attempt that was lost is never repeated. */
export async function gantrySandbox(
  task: SandboxTask | undefined,
  job: Uint8Array | undefined,
): Promise<Uint8Array | NoOutcome> {
  // Without the key a payload reads as undefined.
  if (task === undefined || job === undefined) return unsealed
  const activities = proxyActivities<UntypedActivities>({
    scheduleToStartTimeout: task.queueMs,
    startToCloseTimeout: task.runMs,
    heartbeatTimeout: task.heartbeatMs,
    cancellationType: 'WAIT_CANCELLATION_COMPLETED',
    retry: { maximumAttempts: 1 },
  })
  try {
    return await activities[sandboxActivity]?.(task, job)
  } catch (error) {
    if (isCancellation(error)) throw error
    return { failed: failureOf(error) }
  }
}

/** What the runtimes of a worker offer. */
export async function gantryOffers(queueMs: number | undefined, runMs: number | undefined): Promise<unknown> {
  if (queueMs === undefined || runMs === undefined) return unsealed
  const activities = proxyActivities<UntypedActivities>({
    scheduleToStartTimeout: queueMs,
    startToCloseTimeout: runMs,
    retry: { maximumAttempts: 1 },
  })
  try {
    return await activities[offersActivity]?.()
  } catch (error) {
    if (isCancellation(error)) throw error
    return { failed: failureOf(error) }
  }
}

const unsealed: NoOutcome = { failed: 'failed' }

function failureOf(error: unknown): NoOutcome['failed'] {
  const cause = error instanceof ActivityFailure ? error.cause : undefined
  if (!(cause instanceof TimeoutFailure)) return 'failed'
  if (cause.timeoutType === 'SCHEDULE_TO_START') return 'queued'
  return cause.timeoutType === 'HEARTBEAT' ? 'lost' : 'late'
}
