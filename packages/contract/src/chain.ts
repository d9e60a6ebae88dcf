import type { ErrorInfo } from './error.ts'
import type { Json, JsonObject } from './json.ts'
import type { Result, ResultStatus } from './result.ts'
import type { RetryRule } from './tool.ts'

/** When a step runs: a value that must be truthy, or a comparison; strings may hold `{{references}}`. */
export type Condition =
  | string
  | boolean
  | { readonly value: Json; readonly equals: Json }
  | { readonly value: Json; readonly notEquals: Json }
  | { readonly value: Json; readonly in: Json }
  | { readonly value: Json; readonly greaterThan: Json }
  | { readonly value: Json; readonly lessThan: Json }
  | { readonly exists: string }
  | { readonly all: readonly Condition[] }
  | { readonly any: readonly Condition[] }
  | { readonly not: Condition }

/** One tool call of a chain. Strings in `args` may hold `{{prev.…}}`, `{{steps.<id>.output.…}}`, `{{input.…}}`, `{{item}}`, `{{index}}`. */
export interface ChainCall {
  readonly id?: string
  readonly tool: string
  readonly args?: JsonObject
  /** Puts the previous output into `args`: under this name, or as `previous` when `true`. */
  readonly usePrevious?: boolean | string
  readonly when?: Condition
  /** Runs once per element of a list, given or referred to; the output is the list of outputs. */
  readonly forEach?: string | readonly Json[]
  /** Elements at a time; 1 when absent. */
  readonly concurrency?: number
  readonly timeoutMs?: number
  readonly retry?: RetryRule
  /** `stop` (default) ends the chain, `continue` continues with output null, `{ output }` continues with that output. */
  readonly onError?: 'stop' | 'continue' | { readonly output: Json }
}

/** Steps that run at the same time; the output is an object of their outputs by id, given or made from the position (`step2_1`). */
export interface ChainParallel {
  readonly id?: string
  readonly parallel: readonly ChainCall[]
  readonly when?: Condition
  /** Members at a time; all of them when absent. */
  readonly concurrency?: number
}

export type ChainStep = ChainCall | ChainParallel

/** What became of one step. */
export interface StepResult {
  readonly id: string
  readonly tool?: string
  /** A `failed` step that did not end the chain has its error and its substitute output. */
  readonly state: 'ok' | 'failed' | 'skipped' | 'pending'
  readonly output: Json
  readonly error?: ErrorInfo
  /** One per call made: one for a plain step, one per element for `forEach`, none when skipped or resumed. */
  readonly results: readonly Result[]
  /** The members of a parallel group. */
  readonly steps?: readonly StepResult[]
  /** What became of each element of a `forEach`, in order; a resumed chain runs only those that are not ok. */
  readonly elements?: readonly ('ok' | 'failed' | 'pending')[]
  readonly durationMs: number
}

/** The outcome of a chain; `steps` has the executed steps, whatever the status. */
export interface ChainResult {
  readonly chainId: string
  readonly status: ResultStatus
  readonly output: Json
  readonly error?: ErrorInfo
  readonly steps: readonly StepResult[]
  readonly startedAt: string
  readonly durationMs: number
}
