/** A bucket, and what is wanted of it. */
export interface Draw {
  /** The same name is the same bucket, in whatever process. */
  readonly key: string
  /** What it holds when it is full, as it is before anybody drew from it. */
  readonly capacity: number
  /** How fast it fills again. */
  readonly perMs: number
  /** Less than this is of no use, so that nothing is taken then; a whole number, at most the capacity. */
  readonly least: number
  /** Taken when it is there; a whole number. */
  readonly most: number
}

export interface Drawn {
  /** What was taken: nothing, or a whole number from `least` to `most`. */
  readonly tokens: number
  /** When nothing was taken: after so long there would have been `least`, if nobody else had come. */
  readonly waitMs: number
}

/** What goes back into a bucket because it was not used. */
export interface Gift extends Pick<Draw, 'key' | 'capacity' | 'perMs'> {
  readonly tokens: number
}

/**
 * Buckets of tokens that all processes share. In any span of time not more is taken from one than it holds, and what
 * flows into it meanwhile. The time is that of the place where they are kept, and never runs backwards.
 * - Concurrency: any number of processes; each `draw` and each `give` is one step.
 * - Errors: STORE_UNAVAILABLE when they cannot be reached; then something may have been taken, or given, all the same.
 */
export interface Buckets {
  /** From each bucket once; answers in order. */
  draw(draws: readonly Draw[]): Promise<readonly Drawn[]>
  /** Into each bucket once, up to its brim. */
  give(gifts: readonly Gift[]): Promise<void>
  /** Removes buckets that are full again, which are the same as none; answers how many. */
  tidy(): Promise<number>
}

/** Giving is drawing less than nothing; what is over the brim then is gone when the next one draws. */
export function drawsOf(gifts: readonly Gift[]): readonly Draw[] {
  return gifts.map(({ tokens, ...bucket }) => ({ ...bucket, least: -tokens, most: -tokens }))
}
