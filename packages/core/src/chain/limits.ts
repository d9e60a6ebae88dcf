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
}

/** The defaults with the caller's numbers over them; an explicit undefined keeps the default. */
export function chainLimits(given: Partial<ChainLimits> = {}): ChainLimits {
  const set = Object.entries(given).filter(([, value]) => value !== undefined)
  return { ...defaultChainLimits, ...Object.fromEntries(set) }
}
