import { spend } from '../node.ts'
import { isMultiple } from './decimal.ts'
import { assertion, type Keyword } from './keyword.ts'

/** A keyword that compares a number with its limit. */
function bound(holds: (value: number, limit: number) => boolean, words: string): Keyword {
  return {
    shape: 'number',
    vocabulary: 'validation',
    rank: 1,
    build(value, site) {
      const limit = value as number
      return assertion(
        site,
        (instance) => typeof instance !== 'number' || holds(instance, limit),
        (instance) => `must be ${words} ${limit}, but is ${String(instance)}`,
      )
    },
  }
}

export const minimum: Keyword = bound((value, limit) => value >= limit, 'at least')
export const maximum: Keyword = bound((value, limit) => value <= limit, 'at most')
export const exclusiveMinimum: Keyword = bound((value, limit) => value > limit, 'greater than')
export const exclusiveMaximum: Keyword = bound((value, limit) => value < limit, 'less than')

export const multipleOf: Keyword = {
  shape: 'positive',
  vocabulary: 'validation',
  rank: 1,
  build(value, site) {
    const divisor = value as number
    return assertion(
      site,
      (instance, state) => {
        if (typeof instance !== 'number') return true
        if (!Number.isSafeInteger(instance)) spend(state, 8)
        return isMultiple(instance, divisor)
      },
      (instance) => `must be a multiple of ${divisor}, but is ${String(instance)}`,
    )
  },
}
