import { type ChainResult, codes } from '@gantry/contract'

/** A time limit for a whole chain: a signal that also follows the caller's, and the outcome it makes of a late chain. */
export interface ChainDeadline {
  readonly signal: AbortSignal
  /** The chain's own outcome, unless the time ran out: then that is why it was cancelled. */
  outcome(result: ChainResult): ChainResult
  clear(): void
}

export function chainDeadline(timeoutMs: number | undefined, signal: AbortSignal): ChainDeadline {
  if (timeoutMs === undefined) return { signal, outcome: (result) => result, clear() {} }
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(), timeoutMs)
  return {
    signal: AbortSignal.any([signal, late.signal]),
    outcome(result) {
      if (!late.signal.aborted || signal.aborted || result.error?.code !== 'CANCELLED') return result
      const { status, stage, retryable } = codes.TIMEOUT
      const message = `The chain did not end within ${timeoutMs} ms.`
      return { ...result, status, error: { ...result.error, code: 'TIMEOUT', message, stage, retryable } }
    },
    clear: () => clearTimeout(timer),
  }
}
