import type { Json, Result } from '@gantry/contract'
import { bindArgs } from './bind.ts'
import type { ChainContext } from './context.ts'
import { cancelledBefore, type Failure, failureOfResult, failureOfThrown, located } from './failure.ts'
import type { PlannedCall } from './plan.ts'
import type { Scope } from './scope.ts'

/** One call of a step; never a rejection. */
export interface CallOutcome {
  readonly output: Json
  /** Absent when the call was not made. */
  readonly result?: Result
  readonly failure?: Failure
}

/**
 * Waits for a slot, binds the arguments, makes the call and reads its Result.
 * A failure that ends the chain does so before the slot is given away, so that no waiting call starts after it.
 */
export async function callTool(step: PlannedCall, scope: Scope, context: ChainContext): Promise<CallOutcome> {
  const { signal } = context.stop
  const index = scope.element?.index
  const failed = (reason: Failure, result?: Result): CallOutcome => {
    const failure = located(reason, step.id, index)
    if (failure.fatal || step.onError === 'stop') context.stop.end(failure)
    return { output: null, ...(result && { result }), failure }
  }
  return context.slots.use(async () => {
    if (signal.aborted) return failed(cancelledBefore(`step "${step.id}" was called`))
    let args: ReturnType<typeof bindArgs>
    try {
      args = bindArgs(step.args, scope, context.limits)
      context.budget.take()
    } catch (error) {
      return failed(failureOfThrown(error))
    }
    try {
      const result = await context.run(step.tool, args, {
        signal,
        stepId: step.id,
        ...(step.timeoutMs !== undefined && { timeoutMs: step.timeoutMs }),
        ...(step.retry && { retry: step.retry }),
        ...(index !== undefined && { index }),
      })
      const failure = failureOfResult(result, signal)
      return failure === undefined ? { output: result.output, result } : failed(failure, result)
    } catch (error) {
      return failed(failureOfThrown(error))
    }
  })
}
