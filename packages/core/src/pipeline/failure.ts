import { codes, type ErrorCause, type ErrorInfo, type Json, ToolError } from '@gantry/contract'
import { copyJson } from '../json/copy.ts'
import type { Run } from './run.ts'

const longestMessage = 10_000
const longestName = 100
const deepestCause = 5

/**
 * Names what ended a run. A stop keeps its identity whatever the tool threw because of it.
 * What a tool throws is as hostile as what it returns: nothing here trusts it, and nothing here throws.
 */
export function failureOf(run: Run, thrown: unknown): ToolError {
  if (run.stopped !== undefined) return run.stopped
  const known = ownError(thrown)
  if (known !== undefined) return run.begun ? fromTool(known) : known
  if (run.begun) return new ToolError('BACKEND_FAILED', textOf(thrown), { cause: thrown, exception: true })
  return new ToolError('INTERNAL', 'The call could not be handled.', { cause: thrown, effect: 'none' })
}

/** A ToolError whose fields are what they should be; anything that only looks like one is not. */
function ownError(thrown: unknown): ToolError | undefined {
  try {
    if (!ToolError.is(thrown)) return undefined
    const { code, message, stage, retryable, effect } = thrown
    const sound = Object.hasOwn(codes, code) && typeof message === 'string' && typeof stage === 'string'
    return sound && typeof retryable === 'boolean' && (effect === 'none' || effect === 'possible') ? thrown : undefined
  } catch {
    return undefined
  }
}

/** An error from inside a tool happened while it ran; one that another call ended with says nothing of this call. */
function fromTool(error: ToolError): ToolError {
  if (error.result !== undefined)
    return new ToolError('BACKEND_FAILED', error.message, { cause: error, exception: true })
  const { code, message, retryable, effect, details, cause } = error
  const facts = details === undefined ? {} : { details }
  return new ToolError(code, message, { stage: 'execute', retryable, effect, cause, ...facts })
}

/** An error as it leaves: its code from the table, its causes as far as they may be shown, no stack, no secret. */
export function errorInfo(run: Run, error: ToolError): ErrorInfo {
  const harmless = !run.begun || run.tool?.entry.tool.effect === 'read'
  return {
    code: error.code,
    message: run.shown(error.message, longestMessage),
    stage: error.stage,
    retryable: error.retryable,
    effect: harmless ? 'none' : error.effect,
    ...(error.details === undefined ? {} : { details: plainDetails(run, error.details) }),
    ...(error.cause === undefined ? {} : { cause: causeOf(run, error.cause, 1) }),
    ...(error.exception === true ? { exception: true } : {}),
  }
}

/** The error for those who want one thrown: alive where that is safe, rebuilt from what may be shown where it is not. */
export function shownFailure(run: Run, error: ToolError, info: ErrorInfo | undefined): ToolError {
  if (run.redactor === undefined || info === undefined) return error
  const { code, message, stage, retryable, effect, details, cause, exception } = info
  const facts = { ...(details === undefined ? {} : { details }), ...(exception === true ? { exception } : {}) }
  const shown = cause === undefined ? {} : { cause: shownCause(cause) }
  return new ToolError(code, message, { stage, retryable, effect, ...facts, ...shown })
}

function shownCause({ name, message, cause }: ErrorCause): Error {
  const error = new Error(message, cause === undefined ? undefined : { cause: shownCause(cause) })
  error.name = name
  return error
}

function causeOf(run: Run, cause: unknown, depth: number): ErrorCause {
  try {
    if (!(cause instanceof Error)) return { name: typeof cause, message: run.shown(textOf(cause), longestMessage) }
    const { name, code, cause: deeper } = cause as { name: unknown; code?: unknown; cause?: unknown }
    return {
      name: typeof name === 'string' ? run.shown(name, longestName) : 'Error',
      message: run.shown(textOf(cause), longestMessage),
      ...(typeof code === 'string' ? { code: run.shown(code, longestName) } : {}),
      ...(deeper !== undefined && depth < deepestCause ? { cause: causeOf(run, deeper, depth + 1) } : {}),
    }
  } catch {
    return { name: 'unknown', message: 'The cause cannot be shown.' }
  }
}

function plainDetails(run: Run, details: object): { [key: string]: Json } {
  try {
    const copied = copyJson(details, { convert: true, dropped: { count: 0 } })
    return (run.redactor?.value(copied) ?? copied) as { [key: string]: Json }
  } catch {
    return {}
  }
}

/** A message for anything that can be thrown, hostile objects included. */
function textOf(thrown: unknown): string {
  try {
    const text: unknown = thrown instanceof Error ? thrown.message : String(thrown)
    return typeof text === 'string' ? text : typeof text
  } catch {
    return `a ${typeof thrown} that cannot be shown`
  }
}
