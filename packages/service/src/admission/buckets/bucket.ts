/** A bucket, and the tokens wanted of it. */
export interface Draw {
  /** Identifies the bucket in every process. */
  readonly key: string
  /** The most tokens it holds; a new bucket is full. */
  readonly capacity: number
  /** The refill rate. */
  readonly perMs: number
  /** With fewer tokens than this nothing is taken; a whole number, at most the capacity. */
  readonly least: number
  /** The most that is taken; a whole number. */
  readonly most: number
}

export interface Drawn {
  /** The tokens taken: zero, or a whole number from `least` to `most`. */
  readonly tokens: number
  /** When nothing was taken: the time until the bucket holds `least`, unless others draw. */
  readonly waitMs: number
}

/** Unused tokens that go back into a bucket. */
export interface Refund extends Pick<Draw, 'key' | 'capacity' | 'perMs'> {
  readonly tokens: number
}

/**
 * Token buckets that all processes share. In any span of time at most the capacity of a bucket and its refill in that
 * span are taken from it. The clock is that of the store, and never runs backwards.
 * - Concurrency: any number of processes; each `draw` and each `give` is atomic for each bucket.
 * - Errors: STORE_UNAVAILABLE when the store is unreachable; tokens may have been taken, or given, all the same.
 */
export interface Buckets {
  /** Draws from each bucket once; resolves in the same order. */
  draw(draws: readonly Draw[]): Promise<readonly Drawn[]>
  /** Gives to each bucket once, up to its capacity. */
  give(refunds: readonly Refund[]): Promise<void>
  /** Removes full buckets, which are the same as none; resolves with their number. */
  tidy(): Promise<number>
}

/** Giving is drawing a negative number of tokens; the next draw drops what exceeds the capacity. */
export function drawsOf(refunds: readonly Refund[]): readonly Draw[] {
  return refunds.map(({ tokens, ...bucket }) => ({ ...bucket, least: -tokens, most: -tokens }))
}
