import { type ErrorCode, ToolError } from '@gantry/contract'

/** What a failed call says about the backend behind it: `fault` counts against it, `ignored` says nothing. */
export type Outcome = 'fault' | 'ignored'

/** Codes that always mean that the backend, not the call, was at fault. */
const faultCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'TIMEOUT',
  'BACKEND_UNAVAILABLE',
  'SANDBOX_INIT_FAILED',
  'OUTCOME_UNKNOWN',
])

/**
 * Whether an error speaks against the backend: it did not answer in time, could not be reached or broke while it worked.
 * A wrong argument, a denial, a cancelled call and a tool that answers with a failure of its own do not. Never throws.
 */
export function isFault(error: unknown): boolean {
  try {
    if (ToolError.is(error)) return faultCodes.has(error.code) || (error.code === 'BACKEND_FAILED' && broke(error))
    return !(error instanceof Error && error.name === 'AbortError')
  } catch {
    return true
  }
}

/** A tool's own answer has no cause and a status under 500; a connection or a process that broke has a cause. */
function broke({ retryable, details, cause }: ToolError): boolean {
  const status = details?.status
  return retryable || (typeof status === 'number' ? status >= 500 : cause !== undefined)
}

/** The default of a breaker's `outcome`. */
export function outcomeOf(error: unknown): Outcome {
  return isFault(error) ? 'fault' : 'ignored'
}
