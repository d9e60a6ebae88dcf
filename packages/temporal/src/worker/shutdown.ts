import { ApplicationFailure } from '@temporalio/activity'

/** Whether an activity was stopped because its worker ends, and not because its workflow was cancelled. */
export function isShutDown({ aborted, reason }: AbortSignal): boolean {
  return aborted && reason instanceof Error && reason.message === 'WORKER_SHUTDOWN'
}

/** Ends the attempt without an outcome, so that Temporal gives the activity to another worker if it may be repeated. */
export function shutDownFailure(): ApplicationFailure {
  return ApplicationFailure.retryable('The worker was shut down.')
}
