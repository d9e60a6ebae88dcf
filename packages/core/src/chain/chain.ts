import { randomUUID } from 'node:crypto'
import {
  type ChainResult,
  type ChainStep,
  codes,
  type Issue,
  type Json,
  type JsonObject,
  type OnCircuitOpen,
  type Result,
  type StepResult,
  ToolError,
} from '@gantry/contract'
import type { InnerStep } from '../backends/program-journal.ts'
import { clip } from '../ids/quote.ts'
import { copyJson, JsonError } from '../json/plain.ts'
import { follow } from '../resilience/abort.ts'
import { checkChain } from './check-chain.ts'
import {
  type CallNames,
  type ChainContext,
  createBudget,
  createKept,
  createStepSlots,
  type PlannedStep,
  type RunStep,
  since,
  unrun,
} from './context.ts'
import { cancelledBefore, type Failure, failureOfThrown, located } from './failure.ts'
import { type ChainLimits, chainLimits, limitIssues } from './limits.ts'
import { type Scope, stepView } from './reference.ts'
import { type Resume, type Resumed, readResume } from './resume.ts'
import { runStep } from './step.ts'

export interface ChainOptions {
  /** The value of `{{input}}`; null when absent. */
  readonly input?: Json | undefined
  /** Cancels the chain between and within steps. */
  readonly signal?: AbortSignal | undefined
  /** Timeout of the whole chain; each call has its own too. */
  readonly timeoutMs?: number | undefined
  readonly limits?: Partial<ChainLimits> | undefined
  /** Whether a call waits or fails while its circuit is open; its tool decides when absent. */
  readonly onCircuitOpen?: OnCircuitOpen | undefined
  /** Resumes an earlier run of the same chain; finished steps are not repeated. */
  readonly resume?: Resume | undefined
  /** Called with each step as it ends, not with resumed ones. Errors that it throws are ignored. */
  readonly onStep?: ((step: StepResult) => void) | undefined
  /** Wraps every call. It resolves with the call's Result, whether it made the call or not. */
  readonly around?: StepMiddleware | undefined
  readonly chainId?: string | undefined
  /** W3C traceparent of the chain; an invalid one is ignored. */
  readonly traceparent?: string | undefined
  readonly now?: (() => number) | undefined
}

/** Runs the steps in order and resolves with a ChainResult. Never rejects. */
export async function runChain(
  steps: readonly ChainStep[],
  run: RunStep,
  given?: ChainOptions | null,
): Promise<ChainResult> {
  const options = given ?? {}
  const deadline = chainDeadline(options.timeoutMs, options.signal)
  try {
    return deadline.outcome(await runSteps(steps, withMiddleware(run, options.around), options, deadline.signal))
  } finally {
    deadline.clear()
  }
}

/** Throws CHAIN_INVALID with every issue for a chain that cannot start. */
export function refuseInvalid(steps: unknown, options: Pick<ChainOptions, 'input' | 'limits'>): void {
  const limits = limitsOf(options.limits)
  planOf(steps, limits)
  inputOf(options.input ?? null, limits)
}

async function runSteps(
  steps: readonly ChainStep[],
  run: RunStep,
  options: ChainOptions,
  signal: AbortSignal | undefined,
): Promise<ChainResult> {
  const now = options.now ?? Date.now
  const start = now()
  const done: StepResult[] = []
  let plan: readonly PlannedStep[] = []
  let failure: Failure | undefined
  let output: Json = null
  try {
    const limits = limitsOf(options.limits)
    plan = planOf(steps, limits)
    checkTimeout(options.timeoutMs)
    const input = inputOf(options.input ?? null, limits)
    const resumed = readResume(plan, options.resume)
    const shared = {
      run,
      limits,
      now,
      budget: createBudget(limits.calls),
      kept: createKept(limits.outputBytes),
      slots: createStepSlots(limits.parallel),
    }
    const ended = await withStop(signal, (stop) =>
      walkSteps(plan, resumed, input, { ...shared, stop }, options.onStep, done),
    )
    failure = ended.failure
    output = ended.output
  } catch (error) {
    failure = failureOfThrown(error)
  }
  return {
    chainId: options.chainId ?? randomUUID(),
    status: failure?.status ?? 'ok',
    output: failure === undefined ? output : null,
    ...(failure && { error: failure.error }),
    steps: [...done, ...plan.slice(done.length).map((step) => unrun(step, 'pending'))],
    startedAt: new Date(start).toISOString(),
    durationMs: since(start, now),
  }
}

/** Runs the plan, appending to `done`, until its end or a failure that ends it. */
async function walkSteps(
  plan: readonly PlannedStep[],
  resumed: Resumed,
  input: Json,
  context: ChainContext,
  onStep: ChainOptions['onStep'],
  done: StepResult[],
): Promise<{ readonly output: Json; readonly failure?: Failure }> {
  const views = new Map<string, JsonObject>()
  let prev: Json = null
  const keep = (step: StepResult): void => {
    done.push(step)
    for (const each of [step, ...(step.steps ?? [])]) views.set(each.id, stepView(each))
    if (step.state !== 'skipped') prev = step.output
  }

  resumed.finished.forEach(keep)
  for (const step of plan.slice(done.length)) {
    if (context.stop.signal.aborted) {
      const effect = context.budget.made === 0 ? 'none' : 'possible'
      return { output: null, failure: located(cancelledBefore(`step "${step.id}"`, effect), step.id) }
    }
    const scope: Scope = { prev, input, steps: views }
    const earlier = step.id === resumed.partial?.id ? resumed.partial : undefined
    const outcome = await runStep(step, scope, context, earlier)
    keep(outcome.step)
    notify(onStep, outcome.step)
    if (outcome.failure !== undefined) return { output: null, failure: context.stop.failure ?? outcome.failure }
  }
  return { output: prev }
}

function limitsOf(given: ChainOptions['limits']): ChainLimits {
  const issues = limitIssues(given)
  if (issues.length > 0) throw new ToolError('CHAIN_INVALID', problem(issues), { details: { issues } })
  return chainLimits(given)
}

function planOf(steps: unknown, limits: ChainLimits): readonly PlannedStep[] {
  const checked = checkChain(steps, limits)
  if (checked.ok) return checked.plan
  throw new ToolError('CHAIN_INVALID', problem(checked.issues), { details: { issues: checked.issues } })
}

function checkTimeout(ms: number | undefined): void {
  if (ms === undefined || (ms > 0 && Number.isFinite(ms))) return
  const issues = [{ path: '/timeoutMs', message: 'must be a number of milliseconds above 0' }]
  throw new ToolError('CHAIN_INVALID', problem(issues), { details: { issues } })
}

function problem(issues: readonly Issue[]): string {
  const [first] = issues
  const where = first?.path === '' ? 'it' : clip(first?.path ?? '')
  const count = issues.length === 1 ? '' : `${issues.length} problems, the first: `
  return `The chain is not valid: ${count}${where} ${first?.message}.`
}

/** A copy of the input that the caller cannot change while the chain runs. */
function inputOf(input: unknown, limits: ChainLimits): Json {
  try {
    return copyJson(input, { limits: { bytes: limits.chainBytes, depth: limits.chainDepth, nodes: limits.chainBytes } })
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    const issues = [{ path: error.path, message: error.message }]
    throw new ToolError('CHAIN_INVALID', 'The input of the chain is not valid.', { details: { issues }, cause: error })
  }
}

/** An observer that throws does not fail the chain. */
function notify(onStep: ChainOptions['onStep'], step: StepResult): void {
  try {
    onStep?.(step)
  } catch {
    // Ignored: the chain continues.
  }
}

/** The timeout of a chain: a signal that also follows the caller's, and the outcome of a chain that timed out. */
export interface ChainDeadline {
  readonly signal: AbortSignal | undefined
  /** The chain's own outcome, or TIMEOUT when the timeout cancelled it. */
  outcome(result: ChainResult): ChainResult
  clear(): void
}

/** Node's timers overflow above this value and fire at once. */
const longestMs = 2_147_483_647

export function chainDeadline(timeoutMs: number | undefined, signal: AbortSignal | undefined): ChainDeadline {
  if (timeoutMs === undefined) return { signal, outcome: (result) => result, clear() {} }
  const late = new AbortController()
  const message = `The chain did not end within ${timeoutMs} ms.`
  const timer = setTimeout(() => late.abort(new ToolError('TIMEOUT', message)), Math.min(timeoutMs, longestMs))
  return {
    signal: signal === undefined ? late.signal : AbortSignal.any([signal, late.signal]),
    outcome(result) {
      const ended = result.error?.code === 'CANCELLED' || result.error?.code === 'TIMEOUT'
      if (!late.signal.aborted || signal?.aborted || result.error === undefined || !ended) return result
      const { status, stage, retryable } = codes.TIMEOUT
      return { ...result, status, error: { ...result.error, code: 'TIMEOUT', message, stage, retryable } }
    },
    clear: () => clearTimeout(timer),
  }
}

/** Aborts the running calls of a chain: on the caller's signal, or at the first failure that ends the chain. */
export interface Stop {
  readonly signal: AbortSignal
  /** The failure that ended the chain; absent while it runs and when the caller cancelled it. */
  readonly failure: Failure | undefined
  end(failure: Failure): void
}

/** Gives `work` a Stop that follows the caller's signal, and removes its listener afterwards. */
export async function withStop<T>(parent: AbortSignal | undefined, work: (stop: Stop) => Promise<T>): Promise<T> {
  const { signal, abort, leave } = parent === undefined ? follow() : follow(parent)
  let first: Failure | undefined
  try {
    return await work({
      signal,
      get failure() {
        return first
      },
      end(failure) {
        first ??= failure
        abort(new Error('Another call of the chain failed.'))
      },
    })
  } finally {
    leave()
  }
}

/**
 * Wraps the calls of a chain, including those of groups and elements, to store their results or to return stored ones.
 * - Concurrency: called up to `limits.parallel` times at once.
 * - Cancellation: must settle soon after `step.signal` aborts, as `call` does; the chain waits for it.
 * - Errors: a rejection fails the step, and one with CANCELLED ends the chain whatever its `onError`.
 */
export type StepMiddleware = (step: InnerStep, call: (names?: CallNames) => Promise<Result>) => Promise<Result>

export function withMiddleware(run: RunStep, around: StepMiddleware | undefined): RunStep {
  if (around === undefined) return run
  return async (tool, args, options) => {
    const { stepId, index, decisive, signal } = options
    const step = { stepId, ...(index === undefined ? {} : { index }), tool, args, decisive, signal }
    return around(step, (names) => run(tool, args, { ...options, ...names }))
  }
}
