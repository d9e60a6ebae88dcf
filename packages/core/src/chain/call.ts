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
  /** Why the chain ends after this call although it succeeded: its outcome is kept, so that a resumed chain does not repeat it. */
  readonly ending?: Failure
}

/**
 * Waits for a slot, binds the arguments, makes the call and reads its Result.
 * A failure that ends the chain does so before the slot is given away, so that no waiting call starts after it.
 */
export async function callTool(step: PlannedCall, scope: Scope, context: ChainContext): Promise<CallOutcome> {
  const { signal } = context.stop
  const index = scope.element?.index
  const failed = (reason: Failure, result?: Result): CallOutcome => {
    const survives = step.onError !== 'stop' && !reason.fatal
    const over = survives ? context.kept.add([result ?? null, step.onError.output]) : undefined
    const failure = located(over ?? reason, step.id, index)
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
        decisive: step.onError === 'stop',
        ...(step.timeoutMs !== undefined && { timeoutMs: step.timeoutMs }),
        ...(step.retry && { retry: step.retry }),
        ...(index !== undefined && { index }),
      })
      const failure = failureOfResult(result, signal)
      if (failure !== undefined) return failed(failure, result)
      const over = context.kept.add(result)
      if (over === undefined) return { output: result.output, result }
      const ending = located(over, step.id, index)
      context.stop.end(ending)
      return { output: result.output, result, ending }
    } catch (error) {
      return failed(failureOfThrown(error))
    }
  })
}
