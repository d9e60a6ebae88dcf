import {
  type CodeInfo,
  codes,
  type ErrorCause,
  type ErrorDetails,
  type ErrorInfo,
  type Issue,
  type Json,
  ToolError,
} from '@gantry/contract'
import { isToolError } from '@gantry/service/internal/config/problem'
import { safeLine } from './terminal.ts'

const deepestCause = 5
const mostCharacters = 10_000

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
      name: String(name).slice(0, mostCharacters),
      message: String(message).slice(0, mostCharacters),
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

/** What to do about an error, for a person: the table's advice where it fits; nothing where the message names it. */
export function remedyOf({ code, stage, details = {} }: ErrorInfo): string | undefined {
  if (code === 'CANCELLED') return undefined
  // What a command line may not reach is no matter of the configuration; the message says what to do.
  if (code === 'EGRESS_DENIED' && stage === 'admit') return undefined
  // The message of a service that cannot start beside another one names the remedy.
  if (code === 'SERVICE_UNAVAILABLE' && stage === 'define') return undefined
  // Only a command about quarantine is stale before there is a call.
  if (code === 'CATALOG_STALE' && stage === 'admit') return undefined
  if (code === 'INPUT_INVALID' && stage === 'admit') return 'gantry help explains the commands.'
  // No permission lets a caller decide on its own call.
  if (code === 'DENIED' && details.own === true)
    return 'Another principal with gantry:approve, or a role that `gantry approvals show` names, may decide.'
  const { remedy }: CodeInfo = codes[code]
  // The place of a mistake, or the file that cannot be read, is in the lines before; only a limit is left to point at.
  if (code === 'PAYLOAD_INVALID') {
    return Object.keys(details).some((key) => key !== 'issues' && key !== 'file') ? remedy : undefined
  }
  const [, detail] = /`details\.(\w+)`/.exec(remedy) ?? []
  if (detail === undefined || !isEmpty(details[detail])) return remedy
  return code === 'TOOL_NOT_FOUND' ? '`gantry tools` lists what there is.' : undefined
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0)
}

/** A command line that cannot be run as it stands. `path` names the option or operand. */
export function usageError(path: string, message: string, details: ErrorDetails = {}): ToolError {
  return new ToolError('INPUT_INVALID', message, {
    stage: 'admit',
    details: { ...details, issues: [{ path, message }] },
  })
}

/** The same, with the nearest names that exist; core is loaded only now, because most command lines are right. */
export async function unknownName(
  path: string,
  message: string,
  wanted: string,
  names: Iterable<string>,
): Promise<ToolError> {
  const { nearest } = await import('@gantry/core/internal/search/near')
  const near = nearest(wanted, names)
  const hint = near.length === 0 ? '' : ` Did you mean ${near.join(' or ')}?`
  return usageError(path, `${message}${hint}`, near.length === 0 ? {} : { nearest: near })
}
