import { codes, type ErrorCause, type ErrorInfo, type Json, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { copyJson } from '../json/plain.ts'
import type { Run } from './run.ts'

const longestMessage = 10_000
const longestName = 100
const deepestCause = 5

/**
 * The error that ended a run. A stopped run keeps its stop reason, whatever the tool threw because of it.
 * Thrown values are hostile: nothing here trusts them, and nothing here throws.
 */
export function failureOf(run: Run, thrown: unknown): ToolError {
  if (run.stopped !== undefined) return run.stopped
  const known = ownError(thrown)
  if (known !== undefined) return run.begun ? fromTool(known) : known
  if (run.begun) return new ToolError('BACKEND_FAILED', textOf(thrown), { cause: thrown, exception: true })
  return new ToolError('INTERNAL', 'The call failed because of an internal error.', { cause: thrown, effect: 'none' })
}

/** The thrown value if it is a ToolError with valid fields. */
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

/** A ToolError that a tool threw, with the stage `execute`. The error of an inner call becomes the cause of a new one. */
function fromTool(error: ToolError): ToolError {
  if (error.result !== undefined)
    return new ToolError('BACKEND_FAILED', error.message, { cause: error, exception: true })
  const { code, message, retryable, effect, details, cause } = error
  const facts = details === undefined ? {} : { details }
  return new ToolError(code, message, { stage: 'execute', retryable, effect, cause, ...facts })
}

/** The error of a Result: a known code and redacted causes, without stack or secrets. */
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

/** An error that a tool threw, for logs; without secrets, and not for callers, because it names files of the host. */
export interface Thrown {
  readonly name: string
  readonly message: string
  /** As the engine wrote it, with the stacks of its causes below it; truncated. */
  readonly stack?: string
  /** The innermost frame outside of Node and installed packages: `file:///srv/tools/pay.ts:12:9`. */
  readonly at?: string
}

const longestStack = 8_000
const mostFrames = 50

/** What a tool threw, when it threw; undefined for failures that it reported, and for those of the pipeline. */
export function thrownBy(run: Run, failure: ToolError): Thrown | undefined {
  if (failure.exception !== true) return undefined
  try {
    const { cause } = failure
    const { name, message } = causeOf(run, cause, deepestCause)
    if (!(cause instanceof Error) || typeof cause.stack !== 'string') return { name, message }
    const own = run.shown(cause.stack, longestStack)
    const at = innermostFrame(run.shown(framesOf(cause.stack, textOf(cause)), longestStack))
    const stack = `${own}${causeStacks(run, cause)}`.slice(0, longestStack)
    return { name, message, stack, ...(at === undefined ? {} : { at }) }
  } catch {
    return { name: 'unknown', message: 'The error cannot be shown.' }
  }
}

/** The stacks of the causes of an error, one below the other. */
function causeStacks(run: Run, error: Error): string {
  let text = ''
  let { cause } = error
  for (let depth = 1; depth < deepestCause && cause instanceof Error; depth += 1) {
    text += `\nCaused by: ${run.shown(String(cause.stack ?? cause), longestStack)}`
    cause = cause.cause
  }
  return text
}

/** A stack without its message, which may have lines that look like frames. */
function framesOf(stack: string, message: string): string {
  const start = stack.indexOf(message)
  return start === -1 ? stack : stack.slice(start + message.length)
}

function innermostFrame(stack: string): string | undefined {
  const places = stack.split('\n', mostFrames).flatMap((line) => placeOf(line.trim()) ?? [])
  return places.find((place) => !place.startsWith('node:') && !place.includes('/node_modules/')) ?? places[0]
}

/** The place in a line such as `at pay (file:///srv/tools/pay.ts:12:9)`. */
function placeOf(line: string): string | undefined {
  if (!line.startsWith('at ')) return undefined
  const open = line.lastIndexOf('(')
  const place = open === -1 ? line.slice(line.lastIndexOf(' ') + 1) : line.slice(open + 1, -1)
  return /:\d+:\d+$/.test(place) ? place : undefined
}

/** The error that `runOrThrow` throws: the original one when the run knows no secrets, otherwise rebuilt from the redacted one. */
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
    const { name, cause: deeper } = cause
    const code = 'code' in cause ? cause.code : undefined
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
    const shown = run.redactor?.value(copied) ?? copied
    return isObject(shown) ? shown : {}
  } catch {
    return {}
  }
}

/** A message for any thrown value, hostile objects included. */
function textOf(thrown: unknown): string {
  try {
    const text: unknown = thrown instanceof Error ? thrown.message : String(thrown)
    return typeof text === 'string' ? text : typeof text
  } catch {
    return `a ${typeof thrown} that cannot be shown`
  }
}
