import {
  codes,
  type ErrorCause,
  type ErrorInfo,
  type Json,
  type Result,
  type ResultTool,
  ToolError,
  type Usage,
} from '@gantry/contract'
import type { Measured } from '../backends/backend.ts'
import { copyJson } from '../json/copy.ts'
import type { CallEffects } from './call-effects.ts'
import type { Run } from './run.ts'

const empty: readonly never[] = Object.freeze([])
const byTimer: Usage['enforced'] = Object.freeze({ wallMs: 'timer' })
const byNothing: Usage['enforced'] = Object.freeze({})

/** The Result of a run, from what the stages left on it and what ended it. */
export function resultOf(run: Run, failure: ToolError | undefined): Result {
  const { ports, tool, backend } = run
  const durationMs = Math.max(0, Math.round((ports.clock.monotonic() - run.startedMonotonic) * 1000) / 1000)
  const result: Mutable<Result> = {
    callId: run.request.callId,
    tool: tool?.resultTool as ResultTool,
    backend: { kind: backend?.kind ?? '', name: backend?.name ?? '' },
    status: failure === undefined ? 'ok' : statusOf(failure),
    output: run.output,
    content: run.content,
    warnings: run.warnings,
    artifacts: empty,
    effects: empty,
    usage: { wallMs: durationMs, enforced: run.timed ? byTimer : byNothing },
    attempts: run.attempts,
    startedAt: ports.clock.iso(run.startedAt),
    durationMs,
  }
  // One literal for all Results keeps calls fast; what there is not goes again, which only refused calls pay for.
  if (tool === undefined) delete result.tool
  if (backend === undefined) delete result.backend
  if (run.measured !== undefined) addMeasured(run, result, run.measured, failure)
  if (run.written !== undefined) addEffects(result, run.written)
  return failure === undefined ? result : { ...result, ...endOf(run, result, failure) }
}

/** What was measured where the work was done stands in for what the pipeline saw from outside. */
function addMeasured(
  run: Run,
  result: Mutable<Result>,
  { runtime, usage, partial, program, warnings }: Measured,
  failure: ToolError | undefined,
): void {
  // A call whose time ran out only while its messages were on their way was not stopped before its output.
  if (partial !== undefined && failure !== undefined && failure === run.stopped)
    result.output = partialOutput(run, partial)
  if (runtime !== undefined) result.runtime = runtime
  if (usage !== undefined) result.usage = usage
  if (program !== undefined) result.program = program
  if (warnings !== undefined && warnings.length > 0) result.warnings = [...result.warnings, ...warnings]
}

/** What is safe is an effect; of what is not, the warnings tell. A file is an artifact of the result as well. */
function addEffects(result: Mutable<Result>, written: CallEffects): void {
  result.effects = written.effects()
  result.artifacts = result.effects.flatMap((effect) => (effect.kind === 'file' ? [effect.artifact] : []))
  result.warnings = [...result.warnings, ...written.warnings()]
}

/** Held to the same limits as a whole one, and searched for secrets like it; what does not fit is left out. */
function partialOutput(run: Run, partial: Json): Json {
  try {
    const copied = copyJson(partial, { ...run.tool?.resultCopy, dropped: { count: 0 } })
    return run.redactor?.value(copied) ?? copied
  } catch {
    return null
  }
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }

function endOf(run: Run, { usage }: Result, failure: ToolError): Pick<Result, 'error' | 'usage'> {
  const error = errorInfo(run, failure)
  return { error, usage: failure.code === 'TIMEOUT' ? { ...usage, hit: usage.hit ?? 'wallMs' } : usage }
}

/** A ToolError of another version of Gantry may have a code that this one does not know. */
function statusOf({ code }: ToolError): Exclude<Result['status'], 'ok'> {
  return Object.hasOwn(codes, code) ? codes[code].status : 'failed'
}

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
