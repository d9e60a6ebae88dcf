import {
  type Json,
  type JsonObject,
  type OnCircuitOpen,
  type Result,
  type RetryRule,
  type StepResult,
  ToolError,
} from '@gantry/contract'
import type { EffectSink, ProgramJournal } from '../backends/program-journal.ts'
import type { Recorded } from '../pipeline/record.ts'
import type { Stop } from './chain.ts'
import type { Check } from './condition.ts'
import { type Failure, failureOfThrown } from './failure.ts'
import { type ChainLimits, sizeOf } from './limits.ts'
import type { Template } from './template.ts'

/**
 * Makes one tool call.
 * - Concurrency: called up to `limits.parallel` times at once.
 * - Cancellation: settles soon after `signal` aborts; the chain waits for it, so that no outcome is lost.
 * - Errors: resolves with a Result whatever the outcome. It handles retries and timeouts itself.
 * - Ownership: `args` is a new value that nothing else references.
 */
export type RunStep = (
  tool: string,
  args: JsonObject,
  options: {
    readonly signal: AbortSignal
    readonly timeoutMs?: number
    readonly retry?: RetryRule
    readonly stepId: string
    /** Position of the element in a `forEach`. */
    readonly index?: number
    /** Whether a failure of this call ends the chain. */
    readonly decisive: boolean
    /** The span of the chain. */
    readonly traceparent?: string
    readonly onCircuitOpen?: OnCircuitOpen
  } & CallNames,
) => Promise<Result>

/** Options that the middleware sets for a call of a chain, instead of the defaults. */
export interface CallNames {
  readonly idempotencyKey?: string | undefined
  readonly callId?: string | undefined
  readonly effectSink?: EffectSink | undefined
  /** Makes the call a dry run, as in the options of `run`. */
  readonly recorded?: Recorded | null
  /** The journal of a program, as in the options of `run`. */
  readonly program?: ProgramJournal
}

/** State shared by all steps of one chain. */
export interface ChainContext {
  readonly run: RunStep
  readonly limits: ChainLimits
  readonly budget: CallBudget
  readonly kept: KeptOutputs
  readonly slots: StepSlots
  readonly stop: Stop
  readonly now: () => number
}

/** Counts calls against `limits.calls`. */
interface CallBudget {
  readonly made: number
  /** Throws LIMIT_EXCEEDED unless this many more calls may be made. */
  expect(calls: number): void
  take(): void
}

export function createBudget(limit: number): CallBudget {
  let made = 0
  const expect = (calls: number): void => {
    if (made + calls <= limit) return
    throw new ToolError('LIMIT_EXCEEDED', `The chain may make ${limit} calls; this needs ${made + calls}.`, {
      stage: 'chain',
      effect: made === 0 ? 'none' : 'possible',
      details: { limit: 'calls' },
    })
  }
  return {
    get made() {
      return made
    },
    expect,
    take() {
      expect(1)
      made += 1
    },
  }
}

/** Counts the results of the chain against `limits.outputBytes`. Results of a resumed run are not counted. */
interface KeptOutputs {
  /** The failure that ends the chain once its results exceed the limit. */
  add(kept: unknown): Failure | undefined
}

export function createKept(limit: number): KeptOutputs {
  let left = limit
  return {
    add(kept) {
      left -= sizeOf(kept, Math.max(0, left))
      if (left >= 0) return undefined
      const message = `The results of the chain are larger than outputBytes, ${limit}.`
      const options = { stage: 'chain', effect: 'possible', details: { limit: 'outputBytes' } } as const
      return failureOfThrown(new ToolError('LIMIT_EXCEEDED', message, options))
    },
  }
}

/** The outcome of one step; `failure` is set only when it ends the chain. */
export interface StepOutcome {
  readonly step: StepResult
  readonly failure?: Failure
}

/** A step that did not run, because its condition is false or the chain ended first. */
export function unrun(step: PlannedStep, state: 'skipped' | 'pending'): StepResult {
  return {
    id: step.id,
    ...(step.kind === 'call' && { tool: step.tool }),
    state,
    output: null,
    results: [],
    ...(step.kind === 'group' && { steps: step.members.map((member) => unrun(member, state)) }),
    durationMs: 0,
  }
}

/** Milliseconds since `start`; a clock that was set back gives 0. */
export function since(start: number, now: () => number): number {
  return Math.max(0, now() - start)
}

/** A checked call, ready to be bound and run. */
export interface PlannedCall {
  readonly kind: 'call'
  readonly id: string
  readonly tool: string
  readonly args: Template
  readonly when: Check | undefined
  readonly forEach: Template | undefined
  readonly concurrency: number
  readonly timeoutMs: number | undefined
  readonly retry: RetryRule | undefined
  /** The output that the chain continues with when the step fails; `stop` when it ends. */
  readonly onError: 'stop' | { readonly output: Json }
}

export interface PlannedGroup {
  readonly kind: 'group'
  readonly id: string
  readonly members: readonly PlannedCall[]
  readonly when: Check | undefined
  readonly concurrency: number
}

export type PlannedStep = PlannedCall | PlannedGroup

/** Runs work with limited concurrency; the rest waits in order. Waiting work checks its own signal when it starts. */
export interface StepSlots {
  use<T>(work: () => Promise<T>): Promise<T>
}

export function createStepSlots(count: number): StepSlots {
  let free = count
  const waiting: (() => void)[] = []
  return {
    async use(work) {
      if (free > 0) free -= 1
      else await new Promise<void>((resolve) => waiting.push(resolve))
      try {
        return await work()
      } finally {
        const next = waiting.shift()
        if (next === undefined) free += 1
        else next()
      }
    },
  }
}

/** Runs `work` for each index in order, with limited concurrency, until all are done or `stopped`. `work` must not reject. */
export async function eachBounded(
  count: number,
  concurrency: number,
  stopped: () => boolean,
  work: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < count && !stopped()) await work(next++)
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, count) }, lane))
}
