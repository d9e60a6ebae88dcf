import { checkShapes } from './options.ts'
import { limited, type RateLimitOptions, rateLimitShapes, rateOf, refuseMore, spend, waitFor } from './rate-limit.ts'

export interface RateLimitsOptions extends Omit<RateLimitOptions, 'name'> {
  /** How many keys are counted apart. */
  readonly most?: number
}

/**
 * A rate limit for each key, such as a caller or a tool; a key that is not in use costs nothing.
 * When more than `most` are in use at once, the rest share one limit: memory stays bounded, and many keys gain nothing.
 */
export interface RateLimits {
  /** Passes, or throws RATE_LIMITED with `details.retryAfterMs`. */
  take(key: string, count?: number): void
}

export function createRateLimits(options: RateLimitsOptions): RateLimits {
  const { name: _, ...shapes } = rateLimitShapes
  const known = { ...shapes, most: { kind: 'number', least: 1, whole: true } } as const
  checkShapes('createRateLimits', options, known, ['perSecond', 'burst'])
  const { burst, most = 10_000, now = () => performance.now() } = options
  const rate = rateOf(options)
  /** Until when each key is spoken for, longest unused first. */
  const owed = new Map<string, number>()
  let shared = Number.NEGATIVE_INFINITY

  const makeRoom = (time: number): void => {
    for (const [key, until] of owed) {
      if (until > time) return
      owed.delete(key)
    }
  }
  return {
    take(key, count = 1) {
      refuseMore(key, count, burst)
      const time = now()
      if (owed.size >= most) makeRoom(time)
      const own = owed.get(key)
      const alone = own !== undefined || owed.size < most
      const until = alone ? (own ?? Number.NEGATIVE_INFINITY) : shared
      const waitMs = waitFor(rate, until, time, count)
      if (waitMs > 0) throw limited(key, waitMs)
      if (!alone) shared = spend(rate, shared, time, count)
      else {
        owed.delete(key)
        owed.set(key, spend(rate, until, time, count))
      }
    },
  }
}
