import {
  type JsonObject,
  type OnCircuitOpen,
  type Result,
  type RetryRule,
  type StepResult,
  ToolError,
} from '@gantry/contract'
import type { ProgramJournal } from '../backends/program-journal.ts'
import type { WriteBack } from '../backends/write-back.ts'
import type { Recorded } from '../pipeline/recorded.ts'
import { type Failure, failureOfThrown } from './failure.ts'
import type { ChainLimits } from './limits.ts'
import type { PlannedStep } from './plan.ts'
import { sizeOf } from './size.ts'
import type { Slots } from './slots.ts'
import type { Stop } from './stop.ts'

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
export interface CallBudget {
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
export interface KeptOutputs {
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
