import { ToolError } from '@gantry/contract'
import { isPromiseLike } from '../json/plain.ts'
import { anyText, number, whole } from '../options/option.ts'
import { checkOptions, optionsCheck } from '../options/options.ts'
import { onAbort } from './abort.ts'
import { declaredShare } from './slots.ts'

export interface BulkheadOptions {
  /** Most calls that run at once. */
  readonly concurrency: number
  /** Most calls that wait for a slot; 0 when absent, so that a full bulkhead refuses at once. */
  readonly queue?: number
  /** The longest wait for a slot; until the signal aborts when absent. */
  readonly queueMs?: number
  /** The subject of error messages. */
  readonly name?: string
}

/** Releases the slot; a second call does nothing. */
export type Release = () => void

/**
 * Limits the calls that run and the calls that wait. A tenant holds at most its share of the slots (`declaredShare`).
 * Waiting tenants are served round-robin, each in order of arrival.
 * A full queue admits a tenant that has no call in it: the newest call of the tenant with the most is refused.
 * - Cancellation: an abort removes a waiting call from the queue and rejects with its reason; it does not stop a running
 *   call.
 * - Errors: RATE_LIMITED, thrown at once when the queue is full and rejected with when the wait was too long; the work
 *   has not started then.
 * - Ownership: the holder of a slot releases it when the work has ended.
 */
export interface Bulkhead {
  readonly running: number
  readonly waiting: number
  /** Takes a slot: at once when one is free, otherwise as a promise. */
  enter(signal?: AbortSignal, tenant?: string): Release | Promise<Release>
  /** Runs work in a slot; synchronous when a slot is free and the work is synchronous. */
  run<T>(work: () => T, signal?: AbortSignal): T | Promise<Awaited<T>>
  /** The function behind this bulkhead. */
  wrap<Args extends unknown[], T>(work: (...args: Args) => T): (...args: Args) => T | Promise<Awaited<T>>
}

export const bulkheadMembers = { concurrency: whole(1), queue: whole(0), queueMs: number(1, 2_147_483_647) }
const check = optionsCheck<BulkheadOptions>({
  members: { ...bulkheadMembers, name: anyText },
  required: ['concurrency'],
})

/** `retryAfterMs` when there is no slot; an estimate, because a slot may be released at any time. */
const hintMs = 1_000

export function createBulkhead(options: BulkheadOptions): Bulkhead {
  checkOptions('options of createBulkhead', check, options)
  const { concurrency, queue = 0, queueMs, name = 'The backend' } = options
  /** Waiters by tenant, the next tenant first. Sets keep the order of arrival and allow removal from the middle. */
  const waiters = new Map<string, Set<Waiter>>()
  /** Held slots by tenant. */
  const held = new Map<string, number>()
  let running = 0
  let waiting = 0

  const mayHaveMore = (tenant: string): boolean =>
    tenant === '' || (held.get(tenant) ?? 0) < declaredShare(concurrency, tenant)

  const giveBack = (tenant: string): void => {
    running -= 1
    const left = (held.get(tenant) ?? 1) - 1
    if (left > 0) held.set(tenant, left)
    else held.delete(tenant)
    if (waiting > 0) serve()
  }
  /** Grants free slots. Afterwards only tenants at their share wait while a slot is free. */
  const serve = (): void => {
    for (const [tenant, ofTenant] of waiters) {
      if (running >= concurrency) return
      if (!mayHaveMore(tenant)) continue
      const [next] = ofTenant
      // Round-robin: the tenant goes to the end of the map while it has more waiters, and is served again.
      waiters.delete(tenant)
      if (ofTenant.size > 1) waiters.set(tenant, ofTenant)
      next?.admit()
    }
  }
  /** Refuses a call of the tenant with several queued calls, to admit a tenant with none. */
  const displaceFor = (tenant: string): boolean => {
    if (waiters.has(tenant)) return false
    const longest = [...waiters.values()].reduce(
      (most, ofTenant) => (ofTenant.size > most.size ? ofTenant : most),
      none,
    )
    if (longest.size < 2) return false
    const newest = [...longest].at(-1)
    newest?.refuse(busy(`${name} is busy, and a tenant with no queued call took the place of this one in the queue`))
    return newest !== undefined
  }
  const take = (tenant: string): Release => {
    running += 1
    held.set(tenant, (held.get(tenant) ?? 0) + 1)
    let isHeld = true
    return () => {
      if (isHeld) giveBack(tenant)
      isHeld = false
    }
  }
  const queueUp = (signal: AbortSignal | undefined, tenant: string): Promise<Release> =>
    new Promise((resolve, reject) => {
      const settle = (): void => {
        waiting -= 1
        const ofTenant = waiters.get(tenant)
        ofTenant?.delete(waiter)
        if (ofTenant?.size === 0) waiters.delete(tenant)
        clearTimeout(timer)
        stopListening?.()
      }
      const waiter: Waiter = {
        admit() {
          settle()
          resolve(take(tenant))
        },
        refuse(error) {
          settle()
          reject(error)
        },
      }
      const expire = (ms: number): void => waiter.refuse(busy(`${name} had no free slot within ${ms} ms`))
      const timer = queueMs === undefined ? undefined : setTimeout(() => expire(queueMs), queueMs)
      waiting += 1
      waiters.set(tenant, (waiters.get(tenant) ?? new Set()).add(waiter))
      const stopListening = signal && onAbort(signal, () => waiter.refuse(signal.reason))
    })
  const enter = (signal?: AbortSignal, tenant = ''): Release | Promise<Release> => {
    signal?.throwIfAborted()
    const isFree = running < concurrency
    if (isFree && mayHaveMore(tenant)) return take(tenant)
    if (waiting >= queue && !displaceFor(tenant)) {
      const kept = isFree ? '; the free slots are kept for other tenants' : ''
      throw busy(`${name} is busy: ${running} calls run and ${waiting} wait${kept}`)
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
    // The slot was granted just before the signal aborted.
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
