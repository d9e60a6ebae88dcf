import type { Json, JsonObject, StepResult } from '@gantry/contract'
import { type ChainContext, type StepOutcome, since, unrun } from './context.ts'
import { cancelledBefore, endsChain, type Failure, located } from './failure.ts'
import type { PlannedCall, PlannedGroup } from './plan.ts'
import type { Scope } from './scope.ts'
import { eachBounded } from './slots.ts'

type RunMember = (step: PlannedCall, scope: Scope, context: ChainContext, earlier?: StepResult) => Promise<StepOutcome>

/**
 * Runs the members of a group together; each sees what the group saw, none sees another.
 * The first member whose failure must end the chain cancels its siblings, and the group fails with it.
 */
export async function runGroup(
  group: PlannedGroup,
  scope: Scope,
  context: ChainContext,
  runMember: RunMember,
  earlier?: StepResult,
): Promise<StepOutcome> {
  const start = context.now()
  const steps: StepResult[] = group.members.map((member) => unrun(member, 'pending'))
  let failure: Failure | undefined
  const stopped = (): boolean => context.stop.signal.aborted
  await eachBounded(group.members.length, group.concurrency, stopped, async (index) => {
    const member = group.members[index]
    if (member === undefined) return
    const before = earlier?.steps?.[index]
    const done = before !== undefined && isFinished(member, before)
    const outcome: StepOutcome = done ? { step: before } : await runMember(member, scope, context, before)
    steps[index] = outcome.step
    failure ??= outcome.failure
  })
  const waiting = steps.find((step) => step.state === 'pending')
  const cut = waiting && located(cancelledBefore(`step "${waiting.id}"`), waiting.id)
  const ending = failure === undefined ? cut : (context.stop.failure ?? failure)
  const done: StepResult = {
    id: group.id,
    state: ending === undefined ? 'ok' : 'failed',
    output: outputsById(steps),
    ...(ending && { error: ending.error }),
    results: [],
    steps,
    durationMs: since(start, context.now),
  }
  return ending === undefined ? { step: done } : { step: done, failure: ending }
}

/** Whether a call is done with: it succeeded, was skipped, or failed in a way the chain goes on from. */
export function isFinished(step: PlannedCall, result: StepResult): boolean {
  if (result.state !== 'failed') return result.state !== 'pending'
  return step.onError !== 'stop' && !(result.error && endsChain(result.error)) && !result.elements?.includes('pending')
}

function outputsById(steps: readonly StepResult[]): JsonObject {
  return Object.fromEntries(steps.map((step): [string, Json] => [step.id, step.output]))
}
