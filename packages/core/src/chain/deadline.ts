import { type ChainResult, codes, ToolError } from '@gantry/contract'

/** A time limit for a whole chain: a signal that also follows the caller's, and the outcome it makes of a late chain. */
export interface ChainDeadline {
  readonly signal: AbortSignal | undefined
  /** The chain's own outcome, unless the time ran out: then that is why it was cancelled. */
  outcome(result: ChainResult): ChainResult
  clear(): void
}

/** Node's timers overflow beyond this, and fire at once. */
const longestMs = 2_147_483_647

export function chainDeadline(timeoutMs: number | undefined, signal: AbortSignal | undefined): ChainDeadline {
  if (timeoutMs === undefined) return { signal, outcome: (result) => result, clear() {} }
  const late = new AbortController()
  const message = `The chain did not end within ${timeoutMs} ms.`
  const timer = setTimeout(() => late.abort(new ToolError('TIMEOUT', message)), Math.min(timeoutMs, longestMs))
  return {
    signal: signal === undefined ? late.signal : AbortSignal.any([signal, late.signal]),
    outcome(result) {
      const ended = result.error?.code === 'CANCELLED' || result.error?.code === 'TIMEOUT'
      if (!late.signal.aborted || signal?.aborted || result.error === undefined || !ended) return result
      const { status, stage, retryable } = codes.TIMEOUT
      return { ...result, status, error: { ...result.error, code: 'TIMEOUT', message, stage, retryable } }
    },
    clear: () => clearTimeout(timer),
  }
}
