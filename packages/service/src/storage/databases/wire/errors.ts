import { ToolError } from '@gantry/contract'

/** Whether a statement may have been done although it failed. */
export type Outcome = 'none' | 'unknown'

/** SQLSTATEs, or classes of them, that tell of the server's state and not of a wrong statement. */
const unavailable = [
  '08', // connections
  '25006', // read-only
  '25P03', // idle in a transaction for too long
  '40', // serialization failures and deadlocks
  '53', // out of space, memory or connections
  '55P03', // a lock that was not had in time
  '57', // cancelled, out of time, shut down, starting
  '58', // the disk failed
]

/** What the server said, as far as it matters here. */
interface Answer {
  readonly sqlstate: string
  /** The server ended the connection with it. */
  readonly fatal: boolean
}

/**
 * What a failed statement is to the rest of the service; the driver's error is the cause.
 * An answer that ends the statement alone says that nothing was done. When the connection is lost, by the server's
 * word or without one, it is as `lost` says. Its effect is `possible` where the outcome is not known, and else `none`.
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

/** A connection that could not be made did nothing, whatever the reason. */
export function connectError(error: unknown): ToolError {
  const sqlstate = answerIn(error)?.sqlstate
  const message =
    sqlstate === '53300'
      ? 'The database has no connection left for us.'
      : isMistrusted(error)
        ? 'The database shows a certificate that is not trusted, or not for its host.'
        : 'The database cannot be reached.'
  const details = { outcome: 'none', ...(sqlstate === undefined ? {} : { sqlstate }) }
  return new ToolError('STORE_UNAVAILABLE', message, { cause: error, details })
}

/** Node names what is wrong with a certificate by words of OpenSSL, or its own. */
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
  // Without an answer the connection was lost, unless the driver could not even send the statement.
  if (answer === undefined) return !(error instanceof TypeError)
  return answer.fatal || unavailable.some((start) => answer.sqlstate.startsWith(start)) || isStalePlan(error, answer)
}

/**
 * A table changed under a prepared statement, or the one that was to prepare it failed while this was behind it, or both
 * did; a new connection prepares it anew.
 */
function isStalePlan(error: unknown, { sqlstate }: Answer): boolean {
  if (sqlstate === '26000' || sqlstate === '42P05') return true
  return sqlstate === '0A000' && error instanceof Error && /cached plan/.test(error.message)
}

/** Undefined when the error is the driver's or the system's, whose codes are words such as EPIPE. */
function answerIn(error: unknown): Answer | undefined {
  if (!(error instanceof Error)) return undefined
  const { code, severity } = error as Error & { readonly code?: unknown; readonly severity?: unknown }
  if (typeof code !== 'string' || typeof severity !== 'string') return undefined
  return { sqlstate: code, fatal: severity === 'FATAL' || severity === 'PANIC' }
}

const messages: { readonly [sqlstate: string]: string } = {
  '25006': 'The database is read-only.',
  '53100': 'The disk of the database is full.',
  '55P03': 'The database did not do a statement in time.',
  '57014': 'The database did not do a statement in time.',
}

function messageFor(answer: Answer | undefined, outcome: Outcome): string {
  const known = messages[answer?.sqlstate ?? '']
  if (known !== undefined) return known
  if (outcome === 'none') return 'The database cannot do a statement now.'
  return 'The connection to the database was lost; whether the statement was done is not known.'
}
