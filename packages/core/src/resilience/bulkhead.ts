import { ToolError } from '@gantry/contract'
import { checkShapes, type OptionShape } from './options.ts'
import { isPromiseLike } from './promise-like.ts'

export interface BulkheadOptions {
  /** Calls that run at a time. */
  readonly concurrency: number
  /** Calls that wait for a place; 0 when absent, so that a full house refuses at once. */
  readonly queue?: number
  /** The longest wait for a place; as long as the signal lets it when absent. */
  readonly queueMs?: number
  /** Who is busy, in messages. */
  readonly name?: string
}

/** Gives the place back; twice is harmless. */
export type Release = () => void

/**
 * Lets a number of calls run at a time and a number wait, in the order in which they came.
 * - Cancellation: a signal takes a waiting call out of the line and rejects with its reason; it does not stop a running one.
 * - Errors: RATE_LIMITED, thrown at once when the line is full, or rejected with when the wait was too long; the work has
 *   not begun then.
 * - Ownership: whoever was given a place gives it back, when the work has really ended.
 */
export interface Bulkhead {
  readonly running: number
  readonly waiting: number
  /** A place at once when there is one, else a promise of it. */
  enter(signal?: AbortSignal): Release | Promise<Release>
  /** Runs work in a place; synchronous when there is a place and the work is. */
  run<T>(work: () => T, signal?: AbortSignal): T | Promise<Awaited<T>>
  /** The function, guarded. */
  wrap<Args extends unknown[], T>(work: (...args: Args) => T): (...args: Args) => T | Promise<Awaited<T>>
}

const shapes: { readonly [Key in keyof Required<BulkheadOptions>]: OptionShape } = {
  concurrency: { kind: 'number', least: 1, whole: true },
  queue: { kind: 'number', least: 0, whole: true },
  queueMs: { kind: 'number', least: 1, most: 2_147_483_647 },
  name: { kind: 'string' },
}

/** What a caller is told to wait for when there is no place; nobody knows when there will be one. */
const hintMs = 1_000

export function createBulkhead(options: BulkheadOptions): Bulkhead {
  checkShapes('createBulkhead', options, shapes, ['concurrency'])
  const { concurrency, queue = 0, queueMs, name = 'The backend' } = options
  /** In the order of arrival; a set, so that leaving from its middle costs nothing. */
  const line = new Set<() => void>()
  let running = 0

  const giveBack = (): void => {
    const [next] = line
    if (next === undefined) running -= 1
    else {
      line.delete(next)
      next()
    }
  }
  const place = (): Release => {
    let held = true
    return () => {
      if (held) giveBack()
      held = false
    }
  }
  const queueUp = (signal: AbortSignal | undefined): Promise<Release> =>
    new Promise((resolve, reject) => {
      const settle = (): void => {
        line.delete(admit)
        clearTimeout(timer)
        signal?.removeEventListener('abort', abort)
      }
      const admit = (): void => {
        settle()
        resolve(place())
      }
      const abort = (): void => {
        settle()
        reject(signal?.reason)
      }
      const timer = queueMs === undefined ? undefined : setTimeout(() => expire(queueMs), queueMs)
      const expire = (ms: number): void => {
        settle()
        reject(busy(`${name} had no place within ${ms} ms`))
      }
      line.add(admit)
      signal?.addEventListener('abort', abort, { once: true })
    })
  const enter = (signal?: AbortSignal): Release | Promise<Release> => {
    signal?.throwIfAborted()
    if (running < concurrency) {
      running += 1
      return place()
    }
    if (line.size >= queue) throw busy(`${name} is busy with ${running} calls, and ${line.size} wait`)
    return queueUp(signal)
  }
  const run = <T>(work: () => T, signal?: AbortSignal): T | Promise<Awaited<T>> => {
    const entered = enter(signal)
    return typeof entered === 'function' ? runIn(entered, work) : later(entered, work, signal)
  }
  return {
    get running() {
      return running
    },
    get waiting() {
      return line.size
    },
    enter,
    run,
    wrap:
      (work) =>
      (...args) =>
        run(() => work(...args)),
  }
}

async function later<T>(entered: Promise<Release>, work: () => T, signal?: AbortSignal): Promise<Awaited<T>> {
  const release = await entered
  if (signal?.aborted) {
    // The place was given at the very moment in which the signal came.
    release()
    throw signal.reason
  }
  return await runIn(release, work)
}

function runIn<T>(release: Release, work: () => T): T | Promise<Awaited<T>> {
  let result: T
  let pending = false
  try {
    result = work()
    pending = isPromiseLike(result)
  } finally {
    if (!pending) release()
  }
  return pending ? Promise.resolve(result).finally(release) : result
}

function busy(text: string): ToolError {
  return new ToolError('RATE_LIMITED', `${text}; try again later.`, { details: { retryAfterMs: hintMs } })
}
