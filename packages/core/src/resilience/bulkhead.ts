import { ToolError } from '@gantry/contract'
import { isPromiseLike } from '../json/kinds.ts'
import { checkShapes, type OptionShape } from './options.ts'

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
 * Lets a number of calls run at a time and a number wait. Tenants take turns, each in the order in which its calls came.
 * A full line makes room for a tenant that has no call in it: the newest of the tenant with most is refused.
 * - Cancellation: a signal takes a waiting call out of the line and rejects with its reason; it does not stop a running one.
 * - Errors: RATE_LIMITED, thrown at once when the line is full, or rejected with when the wait was too long; the work has
 *   not begun then.
 * - Ownership: whoever was given a place gives it back, when the work has really ended.
 */
export interface Bulkhead {
  readonly running: number
  readonly waiting: number
  /** A place at once when there is one, else a promise of it. */
  enter(signal?: AbortSignal, tenant?: string): Release | Promise<Release>
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
  /** By tenant, whose turn it is first; sets in the order of arrival, so that leaving from the middle costs nothing. */
  const lines = new Map<string, Set<Waiter>>()
  let running = 0
  let waiting = 0

  const giveBack = (): void => {
    const [turn] = lines
    if (turn === undefined) {
      running -= 1
      return
    }
    const [tenant, line] = turn
    const [next] = line
    // The tenant is the last from now on; its line is put back while others wait in it.
    lines.delete(tenant)
    if (line.size > 1) lines.set(tenant, line)
    next?.admit()
  }
  /** Makes room in a full line for a tenant that has nothing in it, at the cost of one that has several. */
  const makeRoom = (tenant: string): boolean => {
    if (lines.has(tenant)) return false
    const longest = [...lines.values()].reduce((most, line) => (line.size > most.size ? line : most), none)
    if (longest.size < 2) return false
    const newest = [...longest].at(-1)
    newest?.refuse(busy(`${name} is busy, and others have fewer calls waiting`))
    return newest !== undefined
  }
  const place = (): Release => {
    let held = true
    return () => {
      if (held) giveBack()
      held = false
    }
  }
  const queueUp = (signal: AbortSignal | undefined, tenant: string): Promise<Release> =>
    new Promise((resolve, reject) => {
      const settle = (): void => {
        waiting -= 1
        const line = lines.get(tenant)
        line?.delete(waiter)
        if (line?.size === 0) lines.delete(tenant)
        clearTimeout(timer)
        signal?.removeEventListener('abort', abort)
      }
      const waiter: Waiter = {
        admit() {
          settle()
          resolve(place())
        },
        refuse(error) {
          settle()
          reject(error)
        },
      }
      const abort = (): void => waiter.refuse(signal?.reason)
      const expire = (ms: number): void => waiter.refuse(busy(`${name} had no place within ${ms} ms`))
      const timer = queueMs === undefined ? undefined : setTimeout(() => expire(queueMs), queueMs)
      waiting += 1
      lines.set(tenant, (lines.get(tenant) ?? new Set()).add(waiter))
      signal?.addEventListener('abort', abort, { once: true })
    })
  const enter = (signal?: AbortSignal, tenant = ''): Release | Promise<Release> => {
    signal?.throwIfAborted()
    if (running < concurrency) {
      running += 1
      return place()
    }
    if (waiting >= queue && !makeRoom(tenant)) {
      throw busy(`${name} is busy with ${running} calls, and ${waiting} wait`)
    }
    return queueUp(signal, tenant)
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
      return waiting
    },
    enter,
    run,
    wrap:
      (work) =>
      (...args) =>
        run(() => work(...args)),
  }
}

interface Waiter {
  admit(): void
  refuse(error: unknown): void
}

const none: ReadonlySet<Waiter> = new Set()

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
