import type { Report, Result } from '@gantry/contract'
import type { Executor, RunOptions, WriteBack } from '@gantry/core'
import { downstreamKey } from '../../storage/calls/call-facts.ts'
import type { Claim } from '../../storage/calls/call-store.ts'

export interface RunCall {
  readonly executor: Executor
  readonly claim: Claim
  readonly args: unknown
  readonly signal: AbortSignal
  /** Where the call stands in a trace. */
  readonly traceparent?: string | undefined
  readonly report: (report: Report) => void | Promise<void>
  /** Takes what the tool writes back; without it messages are only effects, and there are no files. */
  readonly writeBack?: WriteBack
}

/** Runs a claimed call through the pipeline, as its first caller and with the tool as it was when it was admitted. */
export function runCall({ executor, claim, args, signal, traceparent, report, writeBack }: RunCall): Promise<Result> {
  const { call } = claim
  return executor.run(call.tool, args, {
    callId: call.callId,
    identity: call.identity,
    idempotencyKey: downstreamKey(call),
    fence: claim.fence,
    signal,
    traceparent,
    origin: call.origin,
    report,
    writeBack,
    // A call that waits for its circuit does so in the queue, and not in a worker.
    onCircuitOpen: 'fail',
    ...(call.digest === undefined ? {} : { schemaDigest: call.digest }),
    ...timeout(claim),
  })
}

/** A call may take its own time, but not longer than it is worth anything. */
export function timeout({ call, deadlineMs }: Claim): Pick<RunOptions, 'timeoutMs'> {
  const times = [call.timeoutMs, deadlineMs].filter((ms) => ms !== undefined)
  return times.length === 0 ? {} : { timeoutMs: Math.max(1, Math.min(...times)) }
}
