import { ToolError } from '@gantry/contract'
import type { ChainLimits } from './limits.ts'

/** Bytes that one piece of work may still build or compare. */
export interface Allowance {
  readonly left: number
  /** Throws LIMIT_EXCEEDED once more is spent than was given. */
  spend(bytes: number): void
}

/** One allowance for a whole condition, a list or the arguments of a call, however many references it holds. */
export function createAllowance(limit: 'argsBytes' | 'evaluationBytes', limits: ChainLimits): Allowance {
  const what = limit === 'argsBytes' ? 'The bound arguments are' : 'What the condition or list builds and compares is'
  let left = limits[limit]
  return {
    get left() {
      return left
    },
    spend(bytes) {
      left -= bytes
      if (left >= 0) return
      throw new ToolError('LIMIT_EXCEEDED', `${what} larger than ${limit}, ${limits[limit]}.`, {
        stage: 'chain',
        effect: 'none',
        details: { limit },
      })
    },
  }
}
