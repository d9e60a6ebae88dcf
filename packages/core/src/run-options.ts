import { type Identity, type Issue, type RetryRule, ToolError } from '@gantry/contract'
import { isPositive } from './executor-options.ts'

/** How one call differs from the executor's defaults. */
export interface RunOptions {
  readonly signal?: AbortSignal
  readonly timeoutMs?: number
  readonly idempotencyKey?: string
  /** Who calls; established by the host program, never read from arguments. */
  readonly identity?: Identity
  /** Digest of the tool the caller saw; another one is CATALOG_STALE. */
  readonly schemaDigest?: string
  readonly retry?: RetryRule
  readonly callId?: string
}

export const noOptions: RunOptions = Object.freeze({})

const longestKey = 1_000

/** What is wrong with the options of a call, if anything; a call with wrong options is refused, not guessed at. */
export function checkRunOptions(options: RunOptions): ToolError | undefined {
  if (options === noOptions) return undefined
  const issue = firstIssue(options)
  if (issue === undefined) return undefined
  return new ToolError('INPUT_INVALID', `The option ${issue.path} ${issue.message}.`, { details: { issues: [issue] } })
}

function firstIssue({ timeoutMs, signal, identity, retry, ...texts }: RunOptions): Issue | undefined {
  if (timeoutMs !== undefined && !isPositive(timeoutMs)) {
    return { path: '/timeoutMs', message: 'must be a number of milliseconds above 0' }
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    return { path: '/signal', message: 'must be an AbortSignal' }
  }
  if (identity !== undefined && !isIdentity(identity)) {
    return { path: '/identity', message: 'must have a principal, a tenant and a list of permissions' }
  }
  if (retry !== undefined && !(Number.isInteger(retry.attempts) && retry.attempts > 0)) {
    return { path: '/retry/attempts', message: 'must be a whole number above 0' }
  }
  for (const key of ['idempotencyKey', 'schemaDigest', 'callId'] as const) {
    const text: unknown = texts[key]
    if (text === undefined || (typeof text === 'string' && text.length > 0 && text.length <= longestKey)) continue
    return { path: `/${key}`, message: `must be a text of 1 to ${longestKey} characters` }
  }
  return undefined
}

function isIdentity(value: Identity): boolean {
  if (typeof value !== 'object' || value === null) return false
  return typeof value.principal === 'string' && typeof value.tenant === 'string' && Array.isArray(value.permissions)
}
