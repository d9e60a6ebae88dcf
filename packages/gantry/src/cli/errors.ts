import {
  type CodeInfo,
  codes,
  type ErrorCause,
  type ErrorDetails,
  type ErrorInfo,
  type Issue,
  type Stage,
  ToolError,
} from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { isToolError } from '@gantry/service/internal/config/problem'
import { safeLine } from './terminal.ts'

const deepestCause = 5
const mostCharacters = 10_000

/** Any thrown value in the form that `--json` prints. */
export function errorInfoOf(thrown: unknown): ErrorInfo {
  const error = isToolError(thrown)
    ? thrown
    : new ToolError('INTERNAL', 'An unexpected error occurred.', { cause: thrown, effect: 'none' })
  const { code, message, stage, retryable, effect, details } = error
  return {
    code,
    message,
    stage,
    retryable,
    effect,
    ...(details === undefined ? {} : { details: JSON.parse(JSON.stringify(details)) }),
    ...(error.cause === undefined ? {} : { cause: causeOf(error.cause, 1) }),
  }
}

/** Any thrown value as a cause. A value that throws when it is read is reported as such. */
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
    return { name: typeof cause, message: 'reading it throws' }
  }
}

/** An error as text: message, failing paths, cause, remedy. */
export function errorText(error: ErrorInfo): string {
  const issues = listed<Issue>(error.details?.issues).filter(({ message }) => message !== error.message)
  const near = listed<string>(error.details?.nearest)
  const remedy = remedyOf(error)
  // A traceback has lines of its own; indented, none of them can pass for a line of ours.
  const [first = '', ...more] = error.message.split('\n').filter((line) => line.trim() !== '')
  const lines = [
    `${error.code}: ${first}`,
    ...more.map((line) => `    ${line}`),
    ...issues.map(({ path, message }) => `  ${path === '' ? '(all of it)' : path} ${message}`),
    ...causeLines(error),
    ...(near.length > 0 && !/did you mean/i.test(error.message) ? [`Did you mean ${near.join(' or ')}?`] : []),
    ...(remedy === undefined ? [] : [remedy]),
  ]
  return `${lines.map(safeLine).join('\n')}\n`
}

/** The cause of a failed tool repeats its message and is not printed; other causes are. */
function causeLines({ cause, message }: ErrorInfo): string[] {
  const lines: string[] = []
  for (let each = cause; each !== undefined; each = each.cause) {
    if (each.message !== message) lines.push(`  because of ${each.name}: ${each.message}`)
  }
  return lines
}

/** Details may come from another process, so their types are checked. */
function listed<T>(value: unknown): readonly T[] {
  return Array.isArray(value) ? value : []
}

export function exitCodeOf(outcome: { readonly error?: ErrorInfo }): number {
  return outcome.error === undefined ? 0 : codes[outcome.error.code].exit
}

/** The remedy of an error: that of the code table where it applies, none where the message already names it. */
export function remedyOf({ code, message, stage, details = {} }: ErrorInfo): string | undefined {
  if (code === 'CANCELLED') return undefined
  // A denial at admission is not about `egress.allow`; its message names the remedy.
  if (code === 'EGRESS_DENIED' && (stage === 'admit' || namesLine.test(message))) return undefined
  // The message of a service that cannot start beside another one names the remedy.
  if (code === 'SERVICE_UNAVAILABLE' && stage === 'define') return undefined
  // Only a command about quarantine is stale before there is a call.
  if (code === 'CATALOG_STALE' && stage === 'admit') return undefined
  if (code === 'INPUT_INVALID' && stage === 'admit') return 'gantry help explains the commands.'
  // No permission lets a caller decide on its own call.
  if (code === 'DENIED' && details.own === true)
    return 'Another principal with gantry:approve, or a role that `gantry approvals show` names, may decide.'
  if (code === 'DENIED') return denialRemedy(stage, details, message)
  // A program in this process ends with the same refusal, which is no fault of the line where it made the call.
  if (hasNoApprover(code === 'CODE_FAILED' ? details.error : { code, message })) return approvalRemedy
  const { remedy }: CodeInfo = codes[code]
  // The lines before name the position of a parse error or the unreadable file; only a size limit needs the remedy.
  if (code === 'PAYLOAD_INVALID') {
    return Object.keys(details).some((key) => key !== 'issues' && key !== 'file') ? remedy : undefined
  }
  const [, detail] = /`details\.(\w+)`/.exec(remedy) ?? []
  if (detail === undefined || !isEmpty(details[detail])) return remedy
  return code === 'TOOL_NOT_FOUND' ? '`gantry tools` lists what there is.' : undefined
}

const approvalRemedy =
  'Start the service with `gantry serve` and make the call again: there it waits for `gantry approvals approve` or `deny`.'

/** Whether a call needs approval where no approver can be asked, which is everywhere but in the service. */
function hasNoApprover(error: unknown): boolean {
  return isObject(error) && error.code === 'APPROVAL_REQUIRED' && / needs approval: /.test(String(error.message))
}

/** The message of an egress refusal that says which line to add or change. */
const namesLine = /\b[Aa]dd (?:"|\{)|egress\.allow/

/** A permission is missing, a rule or a person said no, a server refused the credentials, or the tool itself refuses. */
function denialRemedy(
  stage: Stage,
  { permission, rule, approval, secrets, status }: JsonMembers,
  message: string,
): string {
  if (typeof permission === 'string') {
    return `Ask for ${permission}: \`gantry keys create <name> --permission ${permission}\` makes a key that has it.`
  }
  if (approval === 'denied') return 'A person decided against the call; change it as they ask, and make it again.'
  if (typeof rule === 'string') {
    return `The rule ${rule} of the policy decides; \`gantry policy test <tool>\` explains it for any caller.`
  }
  const names = listed<string>(secrets).filter((name) => typeof name === 'string')
  if (names.length > 0) return `Check the secret ${names.join(', ')}: it may be wrong, expired, or lack a right there.`
  if (typeof status === 'number') return 'Check the credentials of the backend: the request had no secret.'
  if (stage === 'execute') return 'The tool refuses; its message says why.'
  if (message.endsWith('No rule allows it.')) {
    return 'The policy denies what no rule allows: add a rule, and try it with `gantry policy test <tool>`.'
  }
  return codes.DENIED.remedy
}

type JsonMembers = NonNullable<ErrorInfo['details']>

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0)
}

/** The error of an invalid command line. `path` names the option or operand. */
export function usageError(path: string, message: string, details: ErrorDetails = {}): ToolError {
  return new ToolError('INPUT_INVALID', message, {
    stage: 'admit',
    details: { ...details, issues: [{ path, message }] },
  })
}

/** The same, with the nearest names. Core is loaded here, because most command lines are valid. */
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
