import {
  type CodeInfo,
  codes,
  type ErrorCode,
  type ErrorInfo,
  type Json,
  type Result,
  type ResultStatus,
  ToolError,
} from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { copyJson } from '../json/plain.ts'

/** The failure of a call, and possibly of the chain. */
export interface Failure {
  readonly status: Exclude<ResultStatus, 'ok'>
  readonly error: ErrorInfo
  /** Ends the chain whatever the step's `onError`. */
  readonly fatal: boolean
}

/** The failure of a call that ended with a Result other than ok. */
export function failureOfResult(result: Result, signal: AbortSignal): Failure | undefined {
  if (result.status === 'ok') return undefined
  const error = result.error ?? infoOf(new ToolError('INTERNAL', `The call ended ${result.status} without an error.`))
  return {
    status: result.status,
    error,
    fatal: signal.aborted && (result.status === 'cancelled' || result.status === 'timeout'),
  }
}

/** The failure for an error thrown before, or instead of, a Result. */
export function failureOfThrown(thrown: unknown): Failure {
  const error = ToolError.is(thrown)
    ? thrown
    : new ToolError('INTERNAL', 'The chain failed because of an internal error.', { cause: thrown })
  const info = infoOf(error)
  return { status: statusOf(error.code), error: info, fatal: endsChain(info) }
}

/** Whether an error ends the chain in any case: it was cancelled, or exceeded its limit of calls or output. */
export function endsChain({ code, stage, details }: ErrorInfo): boolean {
  if (code !== 'LIMIT_EXCEEDED') return code === 'CANCELLED'
  return stage === 'chain' && (details?.limit === 'calls' || details?.limit === 'outputBytes')
}

/** The failure of work that did not start because the chain was cancelled. */
export function cancelledBefore(what: string, effect: 'none' | 'possible' = 'none'): Failure {
  const error = new ToolError('CANCELLED', `The chain was cancelled before ${what}.`, { stage: 'chain', effect })
  return { status: 'cancelled', error: infoOf(error), fatal: true }
}

/** The same failure with the step, and the element, it happened in. */
export function located(failure: Failure, step: string, index?: number): Failure {
  const details = { ...failure.error.details, step, ...(index === undefined ? {} : { index }) }
  return { ...failure, error: { ...failure.error, details } }
}

function infoOf(error: ToolError): ErrorInfo {
  const { code, message, stage, retryable, effect } = error
  const details = detailsOf(error)
  const cause = error.cause instanceof Error ? { name: error.cause.name, message: error.cause.message } : undefined
  return { code, message, stage, retryable, effect, ...(details && { details }), ...(cause && { cause }) }
}

/** Details may hold any value, but only JSON crosses a process boundary. */
function detailsOf(error: ToolError): { [key: string]: Json } | undefined {
  try {
    const copied = copyJson(error.details ?? null, { convert: true, dropped: { count: 0 } })
    return isObject(copied) ? copied : undefined
  } catch {
    return undefined
  }
}

function statusOf(code: ErrorCode): Exclude<ResultStatus, 'ok'> {
  const row: CodeInfo = codes[code]
  return row.status
}
