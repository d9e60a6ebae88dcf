import {
  type Json,
  type JsonObject,
  type OnCircuitOpen,
  type Result,
  type RetryRule,
  type StepResult,
  ToolError,
} from '@gantry/contract'
import type { ProgramJournal, WriteBack } from '../backends/program-journal.ts'
import type { Recorded } from '../pipeline/recorded.ts'
import type { Stop } from './chain.ts'
import type { Check } from './condition.ts'
import { type Failure, failureOfThrown } from './failure.ts'
import { type ChainLimits, sizeOf } from './limits.ts'
import type { Template } from './template.ts'

/**
 * Makes one tool call.
 * - Concurrency: called up to `limits.parallel` times at once.
 * - Cancellation: settles soon after `signal` aborts; the chain waits for it, so that no outcome is lost.
 * - Errors: resolves with a Result whatever happened. Retries and timeouts are its own business.
 * - Ownership: `args` is a fresh value that nothing else holds.
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
    /** The chain ends when this call fails. */
    readonly decisive: boolean
    /** The place of the chain in a trace. */
    readonly traceparent?: string
    readonly onCircuitOpen?: OnCircuitOpen
  } & CallNames,
) => Promise<Result>

/** What a call of a chain is to be known by, when not by names of its own, and where what it writes back goes. */
export interface CallNames {
  readonly idempotencyKey?: string | undefined
  readonly callId?: string | undefined
  readonly writeBack?: WriteBack | undefined
  /** Stands in for the tool of the call, as in the options of `run`. */
  readonly recorded?: Recorded | null
  /** Keeps what a program asks for, as in the options of `run`. */
  readonly program?: ProgramJournal
}

/** What every step of one chain shares. */
export interface ChainContext {
  readonly run: RunStep
  readonly limits: ChainLimits
  readonly budget: CallBudget
  readonly kept: KeptOutputs
  readonly slots: Slots
  readonly stop: Stop
  readonly now: () => number
}

/** Counts calls against `limits.calls`. */
interface CallBudget {
  readonly made: number
  /** Throws LIMIT_EXCEEDED unless so many more calls may be made. */
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

/** Counts what the chain keeps of its calls against `limits.outputBytes`; what a resumed chain brings along is not counted. */
interface KeptOutputs {
  /** Says why the chain must end once it holds more than it may. */
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

/** What one step came to; `failure` is set only when the chain must end with it. */
export interface StepOutcome {
  readonly step: StepResult
  readonly failure?: Failure
}

/** A step that was not run, because its condition did not hold or the chain ended first. */
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
  /** What the chain goes on with when the step fails; `stop` when it does not go on. */
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

/** Runs work with a bounded number in flight; the rest waits in order. Waiting work checks its own signal once it starts. */
interface Slots {
  use<T>(work: () => Promise<T>): Promise<T>
}

export function createSlots(count: number): Slots {
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

/** Takes indexes in order, a few at a time, until all are done or `stopped` says so. `work` must not reject. */
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
