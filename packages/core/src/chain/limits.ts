import type { Issue } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { didYouMean } from '../search/did-you-mean.ts'

/** Ceilings for one chain. The first five are checked before anything runs. */
export interface ChainLimits {
  /** Steps in all, the members of groups included. */
  readonly steps: number
  /** Calls in flight at a time, over the whole chain; also the highest `concurrency` of a step. */
  readonly parallel: number
  /** Segments of one reference. */
  readonly referenceDepth: number
  /** The chain itself as JSON, and its input. */
  readonly chainBytes: number
  readonly chainDepth: number
  /** Elements of one `forEach`. */
  readonly items: number
  /** Calls in all; retries within a call do not count. */
  readonly calls: number
  /** Arguments of one call after binding, as JSON. */
  readonly argsBytes: number
  readonly argsDepth: number
  /** What one condition builds and compares, or one `forEach` list is built of. */
  readonly evaluationBytes: number
  /** Results of all calls that the chain keeps, near enough as JSON. */
  readonly outputBytes: number
}

export const defaultChainLimits: ChainLimits = {
  steps: 100,
  parallel: 32,
  referenceDepth: 32,
  chainBytes: 1_048_576,
  chainDepth: 64,
  items: 1_000,
  calls: 1_000,
  argsBytes: 1_048_576,
  argsDepth: 64,
  evaluationBytes: 16_777_216,
  outputBytes: 16_777_216,
}

/** The defaults with the caller's numbers over them; an explicit undefined keeps the default. */
export function chainLimits(given: Partial<ChainLimits> | null = {}): ChainLimits {
  const set = Object.entries(given ?? {}).filter(([, value]) => value !== undefined)
  return { ...defaultChainLimits, ...Object.fromEntries(set) }
}

/** What is wrong with limits from outside. A chain of no parallel calls would wait for ever. */
export function limitIssues(given: unknown): Issue[] {
  if (given === undefined || given === null) return []
  if (typeof given !== 'object' || Array.isArray(given)) {
    return [{ path: '/limits', message: 'must be an object of limits' }]
  }
  const known = Object.keys(defaultChainLimits)
  return Object.entries(given).flatMap(([key, value]): Issue[] => {
    const name = key.slice(0, 60)
    const path = `/limits/${escapeSegment(name)}`
    if (!known.includes(key)) return [{ path, message: `is not a known limit${didYouMean(name, known)}` }]
    const least = key === 'parallel' ? 1 : 0
    if (value === undefined || (Number.isSafeInteger(value) && value >= least)) return []
    return [{ path, message: `must be a whole number of at least ${least}` }]
  })
}
