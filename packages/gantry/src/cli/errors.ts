import { codes, type ErrorCause, type ErrorInfo, type Issue, type Json, ToolError } from '@gantry/contract'
import { isToolError } from '@gantry/service/internal/config/problem'
import { remedyOf } from './remedy.ts'
import { safeLine } from './terminal.ts'

const deepestCause = 5
const mostLetters = 10_000

/** Anything thrown, as it is printed with `--json`. */
export function errorInfoOf(thrown: unknown): ErrorInfo {
  const error = isToolError(thrown)
    ? thrown
    : new ToolError('INTERNAL', 'Gantry met something it did not expect.', { cause: thrown, effect: 'none' })
  const { code, message, stage, retryable, effect, details } = error
  return {
    code,
    message,
    stage,
    retryable,
    effect,
    ...(details === undefined ? {} : { details: JSON.parse(JSON.stringify(details)) as { [key: string]: Json } }),
    ...(error.cause === undefined ? {} : { cause: causeOf(error.cause, 1) }),
  }
}

/** Anything thrown, as a cause; what throws again when it is looked at is said to do so. */
export function causeOf(cause: unknown, depth: number): ErrorCause {
  try {
    if (!(cause instanceof Error)) return { name: typeof cause, message: String(cause).slice(0, 1_000) }
    const { name, message, cause: next } = cause
    return {
      name: String(name).slice(0, mostLetters),
      message: String(message).slice(0, mostLetters),
      ...('code' in cause && typeof cause.code === 'string' ? { code: cause.code } : {}),
      ...(next !== undefined && depth < deepestCause ? { cause: causeOf(next, depth + 1) } : {}),
    }
  } catch {
    return { name: typeof cause, message: 'it throws when it is read' }
  }
}

/** An error for a person: what, where, why, what to do. */
export function errorText(error: ErrorInfo): string {
  const issues = listed<Issue>(error.details?.issues).filter(({ message }) => message !== error.message)
  const near = listed<string>(error.details?.nearest)
  const remedy = remedyOf(error)
  const lines = [
    `${error.code}: ${error.message}`,
    ...issues.map(({ path, message }) => `  ${path === '' ? '(all of it)' : path} ${message}`),
    ...causeLines(error),
    ...(near.length > 0 && !/did you mean/i.test(error.message) ? [`Did you mean ${near.join(' or ')}?`] : []),
    ...(remedy === undefined ? [] : [remedy]),
  ]
  return `${lines.map(safeLine).join('\n')}\n`
}

/** The cause of a failed tool is its own message again; other causes add something. */
function causeLines({ cause, message }: ErrorInfo): string[] {
  const lines: string[] = []
  for (let each = cause; each !== undefined; each = each.cause) {
    if (each.message !== message) lines.push(`  because of ${each.name}: ${each.message}`)
  }
  return lines
}

/** Details crossed a process: they are lists only if they look like it. */
function listed<T>(value: unknown): readonly T[] {
  return Array.isArray(value) ? value : []
}

export function exitCodeOf(outcome: { readonly error?: ErrorInfo }): number {
  return outcome.error === undefined ? 0 : codes[outcome.error.code].exit
}
