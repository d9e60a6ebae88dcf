import type { JsonObject, Result } from '@gantry/contract'
import type { CallNames, RunStep } from './context.ts'

/** One call of a chain; `stepId` and `index` together name it, the same in every run of the chain. */
export interface StepCall {
  readonly stepId: string
  /** Position of the element in a `forEach`. */
  readonly index?: number
  readonly tool: string
  /** As bound; the tool is called with them. */
  readonly args: JsonObject
  /** The chain ends when this call fails. */
  readonly decisive: boolean
  /** Aborted when the chain is to end before this call has. */
  readonly signal: AbortSignal
}

/**
 * Stands around the calls of a chain, also those of groups and elements, to keep their results or to bring back kept ones.
 * - Concurrency: called up to `limits.parallel` times at once.
 * - Cancellation: must settle soon after `step.signal` aborts, as `call` does; the chain waits for it.
 * - Errors: a rejection is the failure of the step, and one with CANCELLED ends the chain whatever its `onError` says.
 */
export type StepMiddleware = (step: StepCall, call: (names?: CallNames) => Promise<Result>) => Promise<Result>

export function withMiddleware(run: RunStep, around: StepMiddleware | undefined): RunStep {
  if (around === undefined) return run
  return async (tool, args, options) => {
    const { stepId, index, decisive, signal } = options
    const step = { stepId, ...(index === undefined ? {} : { index }), tool, args, decisive, signal }
    return around(step, (names) => run(tool, args, { ...options, ...names }))
  }
}
