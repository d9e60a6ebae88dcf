import { codes, type ErrorCause, type ErrorInfo, type Json, ToolError } from '@gantry/contract'
import { copyJson } from '../json/copy.ts'
import type { Run } from './run.ts'

const longestMessage = 10_000
const deepestCause = 5

/** Names what ended a run. A stop keeps its identity whatever the tool threw because of it. */
export function failureOf(run: Run, thrown: unknown): ToolError {
  if (run.stopped !== undefined) return run.stopped
  if (ToolError.is(thrown)) return thrown
  if (run.begun) return new ToolError('BACKEND_FAILED', textOf(thrown), { cause: thrown })
  return new ToolError('INTERNAL', 'The call could not be handled.', { cause: thrown, effect: 'none' })
}

/** An error as it leaves: its code from the table, its causes as far as they may be shown, no stack, no secret. */
export function errorInfo(run: Run, error: ToolError): ErrorInfo {
  const code = Object.hasOwn(codes, error.code) ? error.code : 'INTERNAL'
  const harmless = !run.begun || run.tool?.entry.tool.effect === 'read'
  const info: ErrorInfo = {
    code,
    message: error.message.slice(0, longestMessage),
    stage: error.stage,
    retryable: error.retryable,
    effect: harmless ? 'none' : error.effect,
    ...(error.details === undefined ? {} : { details: plainDetails(error.details) }),
    ...(error.cause === undefined ? {} : { cause: causeOf(error.cause, 1) }),
  }
  return run.redactor === undefined ? info : (run.redactor.value(info as unknown as Json) as unknown as ErrorInfo)
}

/** The error for those who want one thrown: alive where that is safe, rebuilt from what may be shown where it is not. */
export function shownFailure(run: Run, error: ToolError, info: ErrorInfo | undefined): ToolError {
  if (run.redactor === undefined || info === undefined) return error
  const { code, message, stage, retryable, effect, details, cause } = info
  const facts = details === undefined ? {} : { details }
  const shown = cause === undefined ? {} : { cause: shownCause(cause) }
  return new ToolError(code, message, { stage, retryable, effect, ...facts, ...shown })
}

function shownCause({ name, message, cause }: ErrorCause): Error {
  const error = new Error(message, cause === undefined ? undefined : { cause: shownCause(cause) })
  error.name = name
  return error
}

function causeOf(cause: unknown, depth: number): ErrorCause {
  if (!(cause instanceof Error)) return { name: typeof cause, message: textOf(cause) }
  const { code } = cause as { code?: unknown }
  const deeper = cause.cause !== undefined && depth < deepestCause
  return {
    name: String(cause.name).slice(0, 100),
    message: textOf(cause),
    ...(typeof code === 'string' ? { code: code.slice(0, 100) } : {}),
    ...(deeper ? { cause: causeOf(cause.cause, depth + 1) } : {}),
  }
}

function plainDetails(details: object): { [key: string]: Json } {
  try {
    return copyJson(details, { convert: true, dropped: { count: 0 } }) as { [key: string]: Json }
  } catch {
    return {}
  }
}

/** A message for anything that can be thrown, hostile objects included. */
function textOf(thrown: unknown): string {
  try {
    const text = thrown instanceof Error ? thrown.message : String(thrown)
    return (typeof text === 'string' ? text : typeof text).slice(0, longestMessage)
  } catch {
    return `a ${typeof thrown} that cannot be shown`
  }
}
