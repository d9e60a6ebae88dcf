import { ToolError } from '@gantry/contract'
import { checkShapes, type OptionShape } from './options.ts'

export interface RateLimitOptions {
  readonly perSecond: number
  /** How many may come at once after a quiet time. */
  readonly burst: number
  /** Who is limited, in messages. */
  readonly name?: string
  /** Milliseconds that only grow. */
  readonly now?: () => number
}

/**
 * Lets `burst` pass at once and `perSecond` in the long run.
 * - Errors: RATE_LIMITED with `details.retryAfterMs`; LIMIT_EXCEEDED for more than `burst` at once, which never passes.
 * - Cancellation: a signal takes a waiting call out of the line, and what it waited for is not spent.
 */
export interface RateLimit {
  /** Passes or throws; nothing is spent when it throws, and nobody who waits is overtaken. */
  take(count?: number): void
  /** Passes in its turn. Wait with a signal that has a deadline: the line has no end. */
  wait(signal: AbortSignal, count?: number): Promise<void>
}

const rateLimitShapes: { readonly [Key in keyof Required<RateLimitOptions>]: OptionShape } = {
  perSecond: { kind: 'number', least: 0.001, most: 1_000_000 },
  burst: { kind: 'number', least: 1, whole: true },
  name: { kind: 'string' },
  now: { kind: 'function' },
}

interface Waiting {
  readonly count: number
  pass(): void
}

export function createRateLimit(options: RateLimitOptions): RateLimit {
  checkShapes('createRateLimit', options, rateLimitShapes, ['perSecond', 'burst'])
  const { burst, name = 'The backend', now = () => performance.now() } = options
  const rate = rateOf(options)
  const line = new Set<Waiting>()
  let owed = Number.NEGATIVE_INFINITY
  let timer: NodeJS.Timeout | undefined

  /** Lets those pass whose turn it is, and sets the timer for the next. */
  const serve = (): void => {
    clearTimeout(timer)
    timer = undefined
    for (const next of line) {
      const time = now()
      const waitMs = waitFor(rate, owed, time, next.count)
      if (waitMs > 0) {
        timer = setTimeout(serve, Math.ceil(waitMs))
        return
      }
      owed = spend(rate, owed, time, next.count)
      line.delete(next)
      next.pass()
    }
  }
  const lineCount = (): number => {
    let sum = 0
    for (const { count } of line) sum += count
    return sum
  }
  return {
    take(count = 1) {
      refuseMore(name, count, burst)
      // Those whose turn has come go first, even when their timer is late.
      if (line.size > 0) serve()
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
        if (line.delete(waiting)) reject(signal.reason)
        serve()
      }
      line.add(waiting)
      signal.addEventListener('abort', leave, { once: true })
      if (line.size === 1) serve()
      await promise.finally(() => signal.removeEventListener('abort', leave))
    },
  }
}

/** A bucket that leaks (GCRA): all that is kept of the past is the time until which it is spoken for. */
interface Rate {
  /** Milliseconds that one costs. */
  readonly costMs: number
  /** How far ahead of the time the bucket may be spoken for. */
  readonly aheadMs: number
}

function rateOf({ perSecond, burst }: Pick<RateLimitOptions, 'perSecond' | 'burst'>): Rate {
  return { costMs: 1_000 / perSecond, aheadMs: (burst * 1_000) / perSecond }
}

/** Rounding of sums of milliseconds, which must not refuse what is due. */
const roundingMs = 1e-6

/** Milliseconds until so many may pass; 0 when they may. */
function waitFor(rate: Rate, owed: number, time: number, count: number): number {
  const waitMs = spend(rate, owed, time, count) - time - rate.aheadMs
  return waitMs > roundingMs ? waitMs : 0
}

/** Until when the bucket is spoken for after so many have passed. */
function spend(rate: Rate, owed: number, time: number, count: number): number {
  return Math.max(owed, time) + count * rate.costMs
}

function limited(name: string, waitMs: number): ToolError {
  const retryAfterMs = Math.max(1, Math.ceil(waitMs))
  const text = `${name} takes no more calls in this period; try again in ${retryAfterMs} ms.`
  return new ToolError('RATE_LIMITED', text, { details: { retryAfterMs } })
}

function refuseMore(name: string, count: number, burst: number): void {
  if (count > 0 && count <= burst) return
  const text = `${name} takes from 1 to ${burst} at once, not ${count}.`
  throw new ToolError('LIMIT_EXCEEDED', text, { effect: 'none' })
}

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
