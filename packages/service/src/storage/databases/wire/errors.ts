import { ToolError } from '@gantry/contract'

/** Whether a failed statement may have taken effect. */
export type Outcome = 'none' | 'unknown'

/** SQLSTATEs, or classes of them, of server conditions, as opposed to wrong statements. */
const unavailable = [
  '08', // connections
  '25006', // read-only
  '25P03', // idle in a transaction for too long
  '40', // serialization failures and deadlocks
  '53', // out of space, memory or connections
  '55P03', // lock not available in time
  '57', // cancelled, out of time, shut down, starting
  '58', // the disk failed
]

/** The relevant fields of a server error. */
interface Answer {
  readonly sqlstate: string
  /** The server ended the connection with it. */
  readonly fatal: boolean
}

/**
 * Converts the error of a failed statement; the driver's error is the cause.
 * An error that ends only the statement means that it had no effect. When the connection is lost, the outcome is
 * `lost`. The effect is `possible` when the outcome is unknown, else `none`.
 */
export function statementError(error: unknown, lost: Outcome): ToolError {
  const answer = answerIn(error)
  const outcome = answer?.fatal === false ? 'none' : lost
  const details = { outcome, ...(answer === undefined ? {} : { sqlstate: answer.sqlstate }) }
  const effect = outcome === 'unknown' ? 'possible' : 'none'
  if (isUnavailable(error, answer)) {
    return new ToolError('STORE_UNAVAILABLE', messageFor(answer, outcome), { cause: error, details, effect })
  }
  return new ToolError('INTERNAL', 'The database refused a statement.', { cause: error, details, effect })
}

/** Converts the error of a failed connection, whose outcome is always `none`. */
export function connectError(error: unknown): ToolError {
  const sqlstate = answerIn(error)?.sqlstate
  const message =
    sqlstate === '53300'
      ? 'The database has no free connection.'
      : isMistrusted(error)
        ? 'The database shows a certificate that is not trusted, or not for its host.'
        : 'The database is unreachable.'
  const details = { outcome: 'none', ...(sqlstate === undefined ? {} : { sqlstate }) }
  return new ToolError('STORE_UNAVAILABLE', message, { cause: error, details })
}

/** Whether the code is a certificate error of OpenSSL or Node. */
function isMistrusted(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  return /CERT|VERIFY|ISSUER|ALTNAME/.test(code)
}

export function closedError(): ToolError {
  return new ToolError('STORE_UNAVAILABLE', 'The database is closed.', { details: { outcome: 'none' } })
}

/** Whether the connection of the failed statement must not be used again. */
export function isBroken(error: unknown): boolean {
  const answer = answerIn(error)
  return answer === undefined || answer.fatal || isStalePlan(error, answer)
}

function isUnavailable(error: unknown, answer: Answer | undefined): boolean {
  // Without an answer the connection was lost, unless the driver failed to send the statement.
  if (answer === undefined) return !(error instanceof TypeError)
  return answer.fatal || unavailable.some((start) => answer.sqlstate.startsWith(start)) || isStalePlan(error, answer)
}

/**
 * A table changed under a prepared statement, or the statement that was to prepare it failed. A new connection prepares
 * it again.
 */
function isStalePlan(error: unknown, { sqlstate }: Answer): boolean {
  if (sqlstate === '26000' || sqlstate === '42P05') return true
  return sqlstate === '0A000' && error instanceof Error && /cached plan/.test(error.message)
}

/** Undefined for an error of the driver or the system, whose codes are words such as EPIPE. */
function answerIn(error: unknown): Answer | undefined {
  if (!(error instanceof Error && 'code' in error && 'severity' in error)) return undefined
  const { code, severity } = error
  if (typeof code !== 'string' || typeof severity !== 'string') return undefined
  return { sqlstate: code, fatal: severity === 'FATAL' || severity === 'PANIC' }
}

const messages: { readonly [sqlstate: string]: string } = {
  '25006': 'The database is read-only.',
  '53100': 'The disk of the database is full.',
  '55P03': 'The database did not finish a statement in time.',
  '57014': 'The database did not finish a statement in time.',
}

function messageFor(answer: Answer | undefined, outcome: Outcome): string {
  const known = messages[answer?.sqlstate ?? '']
  if (known !== undefined) return known
  if (outcome === 'none') return 'The database cannot run statements now.'
  return 'The connection to the database was lost; the outcome of the statement is unknown.'
}
