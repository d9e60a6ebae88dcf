import { spend } from '../node.ts'
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

/** Whether a number is a multiple of another, by the decimals that were written rather than by their binary neighbours. */
export function isMultiple(value: number, divisor: number): boolean {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(divisor)) return value % divisor === 0
  if (!Number.isFinite(value)) return false
  const left = decimalOf(value)
  const right = decimalOf(divisor)
  const exponent = Math.min(left.exponent, right.exponent)
  return scaled(left, exponent) % scaled(right, exponent) === 0n
}

interface Decimal {
  readonly digits: bigint
  readonly exponent: number
}

/** `1.5e-7` is 15 times ten to the minus 8. */
function decimalOf(value: number): Decimal {
  const [mantissa = '0', power = '0'] = String(value).split('e')
  const [whole = '0', fraction = ''] = mantissa.split('.')
  return { digits: BigInt(whole + fraction), exponent: Number(power) - fraction.length }
}

function scaled(value: Decimal, exponent: number): bigint {
  return value.digits * 10n ** BigInt(value.exponent - exponent)
}
