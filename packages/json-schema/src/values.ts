import type { Spot } from './spot.ts'

/** Limits the number, depth and length of values in `const` and `enum`, level by level so that depth cannot exhaust the stack. */
export function verifyValues(values: readonly unknown[], spot: Spot): void {
  const { limits } = spot.registry
  let level: readonly unknown[] = values
  let count = 0
  for (let depth = 0; level.length > 0; depth++) {
    count += level.length
    const problem =
      count > limits.values
        ? `holds more than ${limits.values} values`
        : depth > limits.depth
          ? `holds values deeper than ${limits.depth} levels`
          : undefined
    if (problem !== undefined) {
      spot.refuse(problem)
      return
    }
    level = membersOf(level, spot)
  }
}

/** The values inside a list of values. */
function membersOf(level: readonly unknown[], spot: Spot): unknown[] {
  const members: unknown[] = []
  for (const value of level) {
    if (typeof value === 'string') spot.weigh(value)
    else if (Array.isArray(value)) for (const item of value) members.push(item)
    else if (typeof value === 'object' && value !== null) {
      for (const [key, member] of Object.entries(value)) {
        spot.weigh(key)
        members.push(member)
      }
    } else if (value !== null && typeof value !== 'boolean' && !Number.isFinite(value)) {
      spot.refuse('must hold only JSON values')
    }
  }
  return members
}
