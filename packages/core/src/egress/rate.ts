/** Counts what goes to each origin. */
export interface Rate {
  /** Takes one; the time to wait when there is none to take, or 0. */
  take(origin: string): number
}

/** Beyond this number of origins, those that have been quiet long enough are forgotten. */
const mostBuckets = 1_000

/** A bucket of tokens for each origin, which fills up evenly. */
export function createRate(
  { perSecond, burst }: { readonly perSecond: number; readonly burst: number },
  now: () => number = () => performance.now(),
): Rate {
  const buckets = new Map<string, { tokens: number; at: number }>()
  const filled = (bucket: { tokens: number; at: number }, time: number): number =>
    Math.min(burst, bucket.tokens + ((time - bucket.at) / 1_000) * perSecond)

  const forgetFull = (time: number): void => {
    for (const [origin, bucket] of buckets) if (filled(bucket, time) >= burst) buckets.delete(origin)
  }
  return {
    take(origin) {
      const time = now()
      if (buckets.size >= mostBuckets) forgetFull(time)
      const bucket = buckets.get(origin) ?? { tokens: burst, at: time }
      const tokens = filled(bucket, time)
      const taken = tokens >= 1
      buckets.set(origin, { tokens: taken ? tokens - 1 : tokens, at: time })
      return taken ? 0 : Math.ceil(((1 - tokens) / perSecond) * 1_000)
    },
  }
}
