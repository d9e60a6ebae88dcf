import type { ChainResult, Result } from '@gantry/contract'

/**
 * What the audit log says of an end besides its status and code, as JSON: why the call was denied, and where its program
 * ran. Undefined when there is nothing to say, which is so for most calls.
 */
export function endDetails(result: Pick<Result, 'runtime'> | ChainResult, reason?: string): string | undefined {
  const runtime = 'runtime' in result ? result.runtime : undefined
  return reason === undefined && runtime === undefined ? undefined : JSON.stringify({ reason, runtime })
}
