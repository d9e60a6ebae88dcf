import { type Json, type Result, type StepResult, ToolError } from '@gantry/contract'
import { createAllowance } from './allowance.ts'
import { view } from './bind.ts'
import { callTool } from './call.ts'
import { clip } from './clip.ts'
import { type ChainContext, type StepOutcome, since } from './context.ts'
import { cancelledBefore, type Failure, located } from './failure.ts'
import type { PlannedCall } from './plan.ts'
import { describe, type Scope } from './scope.ts'
import { eachBounded } from './slots.ts'
import type { Template } from './template.ts'

type ElementState = 'ok' | 'failed' | 'pending'

/**
 * Calls the tool once per element, a few at a time, and keeps the outputs in the order of the elements.
 * An element that fails under `stop` cancels the others; otherwise its place holds what `onError` says.
 */
export async function runForEach(
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

/** Starts with nothing done, or with the elements an interrupted run over the same number of them got done. */
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
