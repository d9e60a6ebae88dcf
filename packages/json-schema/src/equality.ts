import { type State, spend, spendText, tooDeep } from './node.ts'

/**
 * Equality of JSON values; each value that is visited is paid for, as are long texts. Recursion is bounded by the first
 * value, which comes from a schema of limited depth.
 */
export function equals(known: unknown, value: unknown, state: State): boolean {
  spend(state, 1)
  if (typeof known === 'string') return typeof value === 'string' && sameText(known, value, state)
  if (known === value) return true
  if (typeof known !== 'object' || typeof value !== 'object' || known === null || value === null) return false
  if (Array.isArray(known)) {
    if (!Array.isArray(value) || value.length !== known.length) return false
    return known.every((item, index) => equals(item, value[index], state))
  }
  if (Array.isArray(value)) return false
  const keys = Object.keys(known)
  const count = Object.keys(value).length
  spend(state, keys.length + count)
  if (keys.length !== count) return false
  const left = known as Record<string, unknown>
  const right = value as Record<string, unknown>
  return keys.every((key) => Object.hasOwn(right, key) && equals(left[key], right[key], state))
}

/** Texts of different length differ at once; others are read. */
function sameText(left: string, right: string, state: State): boolean {
  if (left.length !== right.length) return false
  spendText(state, left)
  return left === right
}

/** Indexes of two equal items, or undefined; linear in the size of the array. */
export function findDuplicate(items: readonly unknown[], state: State): readonly [number, number] | undefined {
  spend(state, items.length)
  if (items.length < 8 && items.every(isScalar)) return findSmall(items, state)
  const seen = new Map<unknown, number>()
  const texts = new Map<string, number>()
  for (let index = 0; index < items.length; index++) {
    const item = items[index]
    const scalar = isScalar(item)
    if (typeof item === 'string') spendText(state, item)
    const key = scalar ? item : textOf(item, state, state.depth)
    const earlier = scalar ? seen.get(key) : texts.get(key as string)
    if (earlier !== undefined) return [earlier, index]
    if (scalar) seen.set(key, index)
    else texts.set(key as string, index)
  }
  return undefined
}

/** Compares each pair of a few scalars; long texts are paid for, the rest by the number of items. */
function findSmall(items: readonly unknown[], state: State): readonly [number, number] | undefined {
  for (let right = 1; right < items.length; right++) {
    const later = items[right]
    for (let left = 0; left < right; left++) {
      const earlier = items[left]
      const texts = typeof earlier === 'string' && typeof later === 'string'
      if (texts ? sameText(earlier, later, state) : earlier === later) return [left, right]
    }
  }
  return undefined
}

const isScalar = (value: unknown): boolean => typeof value !== 'object' || value === null

/** Text that is equal for equal values; keys are sorted, and each value is paid for. */
function textOf(value: unknown, state: State, depth: number): string {
  if (typeof value === 'string') spendText(state, value)
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  if (depth >= state.maxDepth) throw tooDeep
  if (Array.isArray(value)) {
    spend(state, 1 + value.length)
    return `[${value.map((item) => textOf(item, state, depth + 1)).join()}]`
  }
  const record = value as Record<string, unknown>
  const keys = Object.keys(record).sort()
  spend(state, 1 + keys.length)
  return `{${keys.map((key) => `${JSON.stringify(key)}:${textOf(record[key], state, depth + 1)}`).join()}}`
}
