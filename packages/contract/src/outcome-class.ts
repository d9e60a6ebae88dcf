import type { ChainResult, StepResult } from './chain.ts'
import type { ErrorInfo } from './error.ts'
import type { Result, ResultStatus } from './result.ts'

/** How a call ended, as metrics and the audit log count it: `failed` is what a tool reported, `exception` what it threw. */
export type OutcomeClass = ResultStatus | 'exception'

/** A program that ended by an error of its own threw it, and so did we where we failed. */
const thrown: readonly ErrorInfo['code'][] = ['CODE_FAILED', 'INTERNAL']

export function outcomeClassOf({ status, error }: Pick<Result, 'status' | 'error'>): OutcomeClass {
  if (status !== 'failed' || error === undefined) return status
  return error.exception === true || thrown.includes(error.code) ? 'exception' : 'failed'
}

/** How many attempts were made beyond the first of each call. */
export function retriesOf(result: Result | ChainResult): number {
  return 'steps' in result ? retriesOfSteps(result.steps) : Math.max(0, result.attempts - 1)
}

function retriesOfSteps(steps: readonly StepResult[]): number {
  return steps.reduce(
    (sum, { results, steps: members = [] }) =>
      sum + results.reduce((all, result) => all + retriesOf(result), 0) + retriesOfSteps(members),
    0,
  )
}
