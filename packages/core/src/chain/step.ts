import { type Json, type JsonObject, type Result, type StepResult, ToolError } from '@gantry/contract'
import { clip } from '../ids/quote.ts'
import { holds } from './condition.ts'
import {
  type ChainContext,
  eachBounded,
  type PlannedCall,
  type PlannedGroup,
  type PlannedStep,
  type StepOutcome,
  since,
  unrun,
} from './context.ts'
import { cancelledBefore, endsChain, type Failure, failureOfResult, failureOfThrown, located } from './failure.ts'
import { createAllowance } from './limits.ts'
import { describe, type Scope } from './reference.ts'
import { bindArgs, type Template, view } from './template.ts'

/** Runs one step of any kind. `earlier` is its partial result of an interrupted run. */
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

/** A failed step ends the chain, unless its `onError` gives an output to continue with. */
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

type RunMember = (step: PlannedCall, scope: Scope, context: ChainContext, earlier?: StepResult) => Promise<StepOutcome>

/**
 * Runs the members of a group in parallel, each in the scope of the group, without the outputs of its siblings.
 * The first member whose failure ends the chain cancels its siblings, and the group fails with it.
 */
async function runGroup(
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

/** Whether a call is finished: it succeeded, was skipped, or failed with an `onError`. */
export function isFinished(step: PlannedCall, result: StepResult): boolean {
  if (result.state !== 'failed') return result.state !== 'pending'
  return step.onError !== 'stop' && !(result.error && endsChain(result.error)) && !result.elements?.includes('pending')
}

function outputsById(steps: readonly StepResult[]): JsonObject {
  return Object.fromEntries(steps.map((step): [string, Json] => [step.id, step.output]))
}

type ElementState = 'ok' | 'failed' | 'pending'

/**
 * Calls the tool once per element, with limited concurrency, and keeps the outputs in the order of the elements.
 * A failed element cancels the others under `stop`; otherwise its output is the one of `onError`.
 */
async function runForEach(
  step: PlannedCall,
  list: Template,
  scope: Scope,
  context: ChainContext,
  earlier?: StepResult,
): Promise<StepOutcome> {
  const start = context.now()
  const items = bindItems(list, scope, context)
  const { outputs, elements } = restore(items.length, earlier)
  context.budget.expect(elements.filter((state) => state !== 'ok').length)
  const results: (Result | undefined)[] = []
  let survived: Failure | undefined
  let ending: Failure | undefined
  const stopped = (): boolean => context.stop.signal.aborted
  await eachBounded(items.length, step.concurrency, stopped, async (index) => {
    if (elements[index] === 'ok') return
    const element = { item: items[index] ?? null, index }
    const { output, result, failure, ending: ended } = await callTool(step, { ...scope, element }, context)
    results[index] = result
    elements[index] = failure === undefined ? 'ok' : 'failed'
    outputs[index] = failure === undefined || step.onError === 'stop' ? output : step.onError.output
    ending ??= ended
    if (failure === undefined) return
    if (step.onError === 'stop' || failure.fatal) ending ??= failure
    else survived ??= failure
  })
  const next = elements.indexOf('pending')
  if (next !== -1) ending ??= located(cancelledBefore(`element ${next} of step "${step.id}"`), step.id, next)
  const failure = ending ?? survived
  const done: StepResult = {
    id: step.id,
    tool: step.tool,
    state: failure === undefined ? 'ok' : 'failed',
    output: outputs,
    ...(failure && { error: failure.error }),
    results: results.filter((result) => result !== undefined),
    elements,
    durationMs: since(start, context.now),
  }
  return ending === undefined ? { step: done } : { step: done, failure: ending }
}

function bindItems(list: Template, scope: Scope, context: ChainContext): Json[] {
  const { limits } = context
  const items = view(list, scope, createAllowance('evaluationBytes', limits))
  if (!Array.isArray(items)) {
    const written = list.kind === 'reference' ? clip(list.reference.text) : 'The value'
    throw new ToolError('REFERENCE_INVALID', `forEach needs a list; ${written} ${describe(items)}.`)
  }
  if (items.length <= limits.items) return items
  throw new ToolError('LIMIT_EXCEEDED', `forEach has ${items.length} elements; at most ${limits.items} are allowed.`, {
    stage: 'chain',
    effect: 'none',
    details: { limit: 'items' },
  })
}

/** Starts empty, or with the finished elements of an interrupted run over the same number of elements. */
function restore(count: number, earlier?: StepResult): { outputs: Json[]; elements: ElementState[] } {
  const outputs = new Array<Json>(count).fill(null)
  const elements = new Array<ElementState>(count).fill('pending')
  const done = earlier?.elements
  if (done?.length !== count || !Array.isArray(earlier?.output)) return { outputs, elements }
  for (const [index, output] of earlier.output.entries()) {
    if (done[index] === 'ok') [outputs[index], elements[index]] = [output, 'ok']
  }
  return { outputs, elements }
}

/** The outcome of one call of a step. */
interface CallOutcome {
  readonly output: Json
  /** Absent when the call was not made. */
  readonly result?: Result
  readonly failure?: Failure
  /** The failure that ends the chain after this successful call, whose result is kept so that a resumed chain does not repeat it. */
  readonly ending?: Failure
}

/**
 * Waits for a slot, binds the arguments, makes the call and reads its Result. Never rejects.
 * A failure that ends the chain does so before the slot is released, so that no waiting call starts after it.
 */
async function callTool(step: PlannedCall, scope: Scope, context: ChainContext): Promise<CallOutcome> {
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
