import { ToolError } from '@gantry/contract'
import { anyText, callback, number, whole } from '../options/option.ts'
import { checkOptions, optionsCheck } from '../options/options.ts'
import { onAbort } from './abort.ts'

export interface RateLimitOptions {
  readonly perSecond: number
  /** Capacity of the bucket: the most calls admitted at once. */
  readonly burst: number
  /** The subject of error messages. */
  readonly name?: string
  /** Monotonic milliseconds. */
  readonly now?: () => number
}

/**
 * A token bucket: admits `burst` calls at once and `perSecond` in the long run.
 * - Errors: RATE_LIMITED with `details.retryAfterMs`; LIMIT_EXCEEDED for more than `burst` at once, which is never
 *   admitted.
 * - Cancellation: an abort removes a waiting call from the queue, and its tokens are not spent.
 */
export interface RateLimit {
  /** Takes tokens or throws without spending any; never overtakes a waiting call. */
  take(count?: number): void
  /** Waits for tokens in order of arrival. Pass a signal with a deadline: the queue is unbounded. */
  wait(signal: AbortSignal, count?: number): Promise<void>
}

export const rateMembers = { perSecond: number(0.001, 1_000_000), burst: whole(1) }
const required = ['perSecond', 'burst'] as const
const limitCheck = optionsCheck<RateLimitOptions>({
  members: { ...rateMembers, name: anyText, now: callback },
  required,
})
const limitsCheck = optionsCheck<RateLimitsOptions>({
  members: { ...rateMembers, most: whole(1), now: callback },
  required,
})

interface Waiting {
  readonly count: number
  pass(): void
}

export function createRateLimit(options: RateLimitOptions): RateLimit {
  checkOptions('options of createRateLimit', limitCheck, options)
  const { burst, name = 'The backend', now = () => performance.now() } = options
  const rate = rateOf(options)
  const waiters = new Set<Waiting>()
  let owed = Number.NEGATIVE_INFINITY
  let timer: NodeJS.Timeout | undefined

  /** Admits the waiters that are due and sets the timer for the next. */
  const serve = (): void => {
    clearTimeout(timer)
    timer = undefined
    for (const next of waiters) {
      const time = now()
      const waitMs = waitFor(rate, owed, time, next.count)
      if (waitMs > 0) {
        timer = setTimeout(serve, Math.ceil(waitMs))
        return
      }
      owed = spend(rate, owed, time, next.count)
      waiters.delete(next)
      next.pass()
    }
  }
  const lineCount = (): number => {
    let sum = 0
    for (const { count } of waiters) sum += count
    return sum
  }
  return {
    take(count = 1) {
      refuseMore(name, count, burst)
      // Waiters that are due go first, even when their timer is late.
      if (waiters.size > 0) serve()
      const time = now()
      const waitMs = waitFor(rate, owed, time, count + lineCount())
      if (waitMs > 0) throw limited(name, waitMs)
      owed = spend(rate, owed, time, count)
    },
    async wait(signal, count = 1) {
      signal.throwIfAborted()
      refuseMore(name, count, burst)
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const waiting: Waiting = { count, pass: resolve }
      const leave = (): void => {
        if (waiters.delete(waiting)) reject(signal.reason)
        serve()
      }
      waiters.add(waiting)
      const stopListening = onAbort(signal, leave)
      if (waiters.size === 1) serve()
      await promise.finally(stopListening)
    },
  }
}

/** GCRA: the only state of a bucket is the time until which it is spent. */
interface Rate {
  /** Milliseconds of refill for one token. */
  readonly costMs: number
  /** How far ahead of now the bucket may be spent. */
  readonly aheadMs: number
}

function rateOf({ perSecond, burst }: Pick<RateLimitOptions, 'perSecond' | 'burst'>): Rate {
  return { costMs: 1_000 / perSecond, aheadMs: (burst * 1_000) / perSecond }
}

/** Tolerance for rounding errors in sums of milliseconds. */
const roundingMs = 1e-6

/** Milliseconds until `count` tokens are available; 0 when they are. */
function waitFor(rate: Rate, owed: number, time: number, count: number): number {
  const waitMs = spend(rate, owed, time, count) - time - rate.aheadMs
  return waitMs > roundingMs ? waitMs : 0
}

/** The time until which the bucket is spent after `count` tokens are taken. */
function spend(rate: Rate, owed: number, time: number, count: number): number {
  return Math.max(owed, time) + count * rate.costMs
}

function limited(name: string, waitMs: number): ToolError {
  const retryAfterMs = Math.max(1, Math.ceil(waitMs))
  const text = `${name} is over its rate limit; try again in ${retryAfterMs} ms.`
  return new ToolError('RATE_LIMITED', text, { details: { retryAfterMs } })
}

function refuseMore(name: string, count: number, burst: number): void {
  if (count > 0 && count <= burst) return
  const text = `${name} admits from 1 to ${burst} calls at once, not ${count}.`
  throw new ToolError('LIMIT_EXCEEDED', text, { effect: 'none' })
}

export interface RateLimitsOptions extends Omit<RateLimitOptions, 'name'> {
  /** Most keys with their own limit. */
  readonly most?: number
}

/**
 * A rate limit per key, such as a caller or a tool; an idle key uses no memory.
 * Keys beyond `most` share one limit: memory stays bounded, and using many keys gains no capacity.
 */
export interface RateLimits {
  /** Takes tokens, or throws RATE_LIMITED with `details.retryAfterMs`. */
  take(key: string, count?: number): void
}

export function createRateLimits(options: RateLimitsOptions): RateLimits {
  checkOptions('options of createRateLimits', limitsCheck, options)
  const { burst, most = 10_000, now = () => performance.now() } = options
  const rate = rateOf(options)
  /** The time until which each key is spent, least recently used first. */
  const owed = new Map<string, number>()
  let shared = Number.NEGATIVE_INFINITY

  const dropIdle = (time: number): void => {
    for (const [key, until] of owed) {
      if (until > time) return
      owed.delete(key)
    }
  }
  return {
    take(key, count = 1) {
      refuseMore(key, count, burst)
      const time = now()
      if (owed.size >= most) dropIdle(time)
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
