/** The limits of all pools together. */
export interface CapacityLimits {
  /** Most warm sandboxes of all specs together. */
  readonly maxTotal: number
  /** Memory that warm sandboxes of all specs may use together. */
  readonly maxMemoryBytes: number
}

/** The capacity for warm sandboxes, shared by all pools. */
export interface Capacity {
  /** Holds capacity for one more sandbox; undefined when it is used up. The caller must release it. */
  take(bytes: number): Hold | undefined
  /** Whether it would suffice for `more` when the disposals in progress have ended, and that of `freed` too. */
  wouldFit(more: Size, freed: Size): boolean
}

export interface Size {
  readonly count: number
  readonly bytes: number
}

/** The slot and memory of one sandbox, from its start until it is taken or removed. */
export interface Hold {
  /** The size that counts now: the estimate, or what was measured last. */
  readonly bytes: number
  /** Replaces the size by what the sandbox uses. */
  measure(bytes: number): void
  /** Marks the beginning of its disposal. */
  leave(): void
  release(): void
}

/** `onSpace` is called when capacity is released after it was refused. */
export function createCapacity({ maxTotal, maxMemoryBytes }: CapacityLimits, onSpace: () => void): Capacity {
  const held = { count: 0, bytes: 0 }
  /** The part of it whose disposal is in progress. */
  const leaving = { count: 0, bytes: 0 }
  let refused = false

  const add = (to: typeof held, count: number, bytes: number): void => {
    to.count += count
    to.bytes += bytes
  }
  const fits = (count: number, bytes: number): boolean => count <= maxTotal && bytes <= maxMemoryBytes
  const hold = (estimate: number): Hold => {
    let bytes = estimate
    let left = false
    add(held, 1, bytes)
    return {
      get bytes() {
        return bytes
      },
      measure(used) {
        add(held, 0, used - bytes)
        if (left) add(leaving, 0, used - bytes)
        bytes = used
      },
      leave() {
        left = true
        add(leaving, 1, bytes)
      },
      release() {
        add(held, -1, -bytes)
        if (left) add(leaving, -1, -bytes)
        if (!refused) return
        refused = false
        onSpace()
      },
    }
  }
  return {
    take(bytes) {
      if (fits(held.count + 1, held.bytes + bytes)) return hold(bytes)
      refused = true
      return undefined
    },
    wouldFit: (more, freed) =>
      fits(
        held.count - leaving.count - freed.count + more.count,
        held.bytes - leaving.bytes - freed.bytes + more.bytes,
      ),
  }
}
