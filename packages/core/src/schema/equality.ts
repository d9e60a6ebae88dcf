import { type State, spend, tooDeep } from './node.ts'

/** Equality of JSON values; recursion is bounded by the first value, which comes from a schema of limited depth. */
export function equals(known: unknown, value: unknown): boolean {
  if (known === value) return true
  if (typeof known !== 'object' || typeof value !== 'object' || known === null || value === null) return false
  if (Array.isArray(known)) {
    if (!Array.isArray(value) || value.length !== known.length) return false
    return known.every((item, index) => equals(item, value[index]))
  }
  if (Array.isArray(value)) return false
  const keys = Object.keys(known)
  if (keys.length !== Object.keys(value).length) return false
  const left = known as Record<string, unknown>
  const right = value as Record<string, unknown>
  return keys.every((key) => Object.hasOwn(right, key) && equals(left[key], right[key]))
}

/** Indexes of two equal items, or undefined; linear in the size of the array. */
export function findDuplicate(items: readonly unknown[], state: State): readonly [number, number] | undefined {
  spend(state, items.length)
  if (items.length < 8 && items.every(isScalar)) return findSmall(items)
  const seen = new Map<unknown, number>()
  const texts = new Map<string, number>()
  for (let index = 0; index < items.length; index++) {
    const item = items[index]
    const scalar = isScalar(item)
    const key = scalar ? item : textOf(item, state, state.depth)
    const earlier = scalar ? seen.get(key) : texts.get(key as string)
    if (earlier !== undefined) return [earlier, index]
    if (scalar) seen.set(key, index)
    else texts.set(key as string, index)
  }
  return undefined
}

function findSmall(items: readonly unknown[]): readonly [number, number] | undefined {
  for (let right = 1; right < items.length; right++) {
    for (let left = 0; left < right; left++) if (items[left] === items[right]) return [left, right]
  }
  return undefined
}

const isScalar = (value: unknown): boolean => typeof value !== 'object' || value === null

/** Text that is equal for equal values; keys are sorted, and each value is paid for. */
function textOf(value: unknown, state: State, depth: number): string {
  if (typeof value === 'string') spend(state, value.length >> 6)
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
