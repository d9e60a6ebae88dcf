import { type Issue, ToolError } from '@gantry/contract'
import { utf8Length } from '../json/plain.ts'
import { whole } from '../options/option.ts'
import { optionsCheck } from '../options/options.ts'

/** Ceilings for one chain. The first five are checked before anything runs. */
export interface ChainLimits {
  /** Total steps, including the members of groups. */
  readonly steps: number
  /** Concurrent calls of the whole chain; also the highest `concurrency` of a step. */
  readonly parallel: number
  /** Segments of one reference. */
  readonly referenceDepth: number
  /** The chain itself as JSON, and its input. */
  readonly chainBytes: number
  readonly chainDepth: number
  /** Elements of one `forEach`. */
  readonly items: number
  /** Total calls; retries within a call do not count. */
  readonly calls: number
  /** Arguments of one call after binding, as JSON. */
  readonly argsBytes: number
  readonly argsDepth: number
  /** Bytes that one condition builds and compares, or that one `forEach` list builds. */
  readonly evaluationBytes: number
  /** Results of all calls of the chain, approximately as JSON. */
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

/** The caller's limits merged over the defaults; an explicit undefined keeps the default. */
export function chainLimits(given: Partial<ChainLimits> | null = {}): ChainLimits {
  const set = Object.entries(given ?? {}).filter(([, value]) => value !== undefined)
  return { ...defaultChainLimits, ...Object.fromEntries(set) }
}

/** `parallel: 0` would block the chain for ever. */
const limitsCheck = optionsCheck<ChainLimits>({
  members: {
    steps: whole(0),
    parallel: whole(1),
    referenceDepth: whole(0),
    chainBytes: whole(0),
    chainDepth: whole(0),
    items: whole(0),
    calls: whole(0),
    argsBytes: whole(0),
    argsDepth: whole(0),
    evaluationBytes: whole(0),
    outputBytes: whole(0),
  },
  noun: 'a known limit',
})

/** The issues of given limits; null counts as none. */
export function limitIssues(given: unknown): readonly Issue[] {
  return given === undefined || given === null || limitsCheck.fits(given) ? [] : limitsCheck.issues(given, '/limits')
}

/** Bytes that one piece of work may still build or compare. */
export interface Allowance {
  readonly left: number
  /** Throws LIMIT_EXCEEDED when more is spent than allowed. */
  spend(bytes: number): void
}

/** One allowance for a whole condition, a list or the arguments of a call, whatever the number of references. */
export function createAllowance(limit: 'argsBytes' | 'evaluationBytes', limits: ChainLimits): Allowance {
  const what =
    limit === 'argsBytes' ? 'The bound arguments are' : 'The values that the condition or list builds and compares are'
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

/** Bytes of a value as JSON, approximately; stops counting above `most`, so that a huge value costs no more. */
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
      // Every element takes at least two bytes, so a list that is too long need not be read.
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
