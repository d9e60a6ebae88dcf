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
