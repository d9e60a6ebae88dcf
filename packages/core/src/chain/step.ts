import type { StepResult } from '@gantry/contract'
import { callTool } from './call.ts'
import { holds } from './condition.ts'
import { type ChainContext, type StepOutcome, since, unrun } from './context.ts'
import { type Failure, failureOfThrown, located } from './failure.ts'
import { runForEach } from './for-each.ts'
import { runGroup } from './group.ts'
import type { PlannedCall, PlannedStep } from './plan.ts'
import type { Scope } from './scope.ts'

/** Runs one step of any kind. `earlier` is what an interrupted run got done of it. */
export async function runStep(
  step: PlannedStep,
  scope: Scope,
  context: ChainContext,
  earlier?: StepResult,
): Promise<StepOutcome> {
  const start = context.now()
  try {
    if (step.when !== undefined && !holds(step.when, scope, context.limits)) return { step: unrun(step, 'skipped') }
    if (step.kind === 'group') return await runGroup(step, scope, context, runStep, earlier)
    if (step.forEach !== undefined) return await runForEach(step, step.forEach, scope, context, earlier)
    return await runCall(step, scope, context)
  } catch (error) {
    const outcome = settleFailure(step, located(failureOfThrown(error), step.id), since(start, context.now))
    if (outcome.failure !== undefined) context.stop.end(outcome.failure)
    return outcome
  }
}

async function runCall(step: PlannedCall, scope: Scope, context: ChainContext): Promise<StepOutcome> {
  const start = context.now()
  const { output, result, failure, ending } = await callTool(step, scope, context)
  const durationMs = since(start, context.now)
  const results = result === undefined ? [] : [result]
  if (failure !== undefined) return settleFailure(step, failure, durationMs, results)
  const done = { id: step.id, tool: step.tool, state: 'ok', output, results, durationMs } as const
  return ending === undefined ? { step: done } : { step: done, failure: ending }
}

/** A failed step ends the chain, unless its `onError` gives the output to go on with. */
function settleFailure(
  step: PlannedStep,
  failure: Failure,
  durationMs: number,
  results: StepResult['results'] = [],
): StepOutcome {
  const rule = step.kind === 'call' && !failure.fatal ? step.onError : 'stop'
  const output = rule === 'stop' ? null : rule.output
  const settled = {
    ...unrun(step, 'pending'),
    state: 'failed',
    output,
    error: failure.error,
    results,
    durationMs,
  } as const
  return rule === 'stop' ? { step: settled, failure } : { step: settled }
}
