import { type Issue, ToolError } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { utf8Length } from '../json/limits.ts'
import { didYouMean } from '../search/near.ts'

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

const defaultChainLimits: ChainLimits = {
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

/** Bytes of a value as JSON, near enough; stops counting once it is over `most`, so that a huge value costs no more. */
export function sizeOf(value: unknown, most: number): number {
  const open: unknown[] = [value]
  let bytes = 0
  while (open.length > 0 && bytes <= most) {
    const next = open.pop()
    if (typeof next === 'string') bytes += utf8Length(next) + 2
    else if (typeof next === 'number') bytes += 8
    else if (typeof next !== 'object' || next === null) bytes += 4
    else if (Array.isArray(next)) {
      bytes += 2
      // Every element takes at least two bytes, so a list that is too long need not be opened.
      if (bytes + next.length * 2 > most) return bytes + next.length * 2
      for (const item of next) open.push(item)
    } else {
      bytes += 2
      for (const [key, member] of Object.entries(next)) {
        bytes += utf8Length(key) + 4
        open.push(member)
      }
    }
  }
  return bytes
}
