import { ToolError } from '@gantry/contract'
import { onAbort } from '@gantry/core/internal/resilience/abort'

/**
 * The fair share of threads between tenants, within a concurrency limit. The next slot goes to the tenant with the
 * fewest threads, and of equal ones to the one served longest ago; within a tenant the order is that of arrival. A
 * tenant has at most three quarters of the threads, from the first run on, so that a slot is free for other tenants
 * however long its programs run. Work without a tenant counts as one more tenant, without that limit.
 */
export interface FairShare {
  /**
   * Resolves with the function that releases the slot; a second call has no effect.
   * Rejects with the signal's reason when it aborts first, and with SANDBOX_INIT_FAILED after `close`; no slot is held
   * then.
   */
  take(signal: AbortSignal, tenant?: string): Promise<() => void>
  /** Rejects waiting and later callers. */
  close(): void
}

interface Waiter {
  enter(): void
  refuse(): void
}

const shareOfTenant = 0.75

export function createFairShare(most: number): FairShare {
  const mostOfTenant = Math.max(1, Math.floor(most * shareOfTenant))
  /** By tenant, least recently served first; sets, so that removal from the middle is cheap. */
  const waiting = new Map<string, Set<Waiter>>()
  const held = new Map<string, number>()
  let running = 0
  let closed = false

  const count = (tenant: string, by: 1 | -1): void => {
    running += by
    const number = (held.get(tenant) ?? 0) + by
    if (number > 0) held.set(tenant, number)
    else held.delete(tenant)
  }
  const mayHaveMore = (tenant: string): boolean => tenant === '' || (held.get(tenant) ?? 0) < mostOfTenant
  const nextTenant = (): string | undefined => {
    let next: { readonly tenant: string; readonly has: number } | undefined
    for (const tenant of waiting.keys()) {
      const has = held.get(tenant) ?? 0
      if ((next === undefined || has < next.has) && mayHaveMore(tenant)) next = { tenant, has }
    }
    return next?.tenant
  }
  const serve = (): void => {
    while (running < most) {
      const tenant = nextTenant()
      const queue = tenant === undefined ? undefined : waiting.get(tenant)
      const [waiter] = queue ?? []
      if (tenant === undefined || queue === undefined || waiter === undefined) return
      queue.delete(waiter)
      waiting.delete(tenant)
      if (queue.size > 0) waiting.set(tenant, queue)
      count(tenant, 1)
      waiter.enter()
    }
  }
  const slotOf = (tenant: string): (() => void) => {
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      count(tenant, -1)
      serve()
    }
  }
  return {
    take(signal, tenant = '') {
      if (signal.aborted) return Promise.reject(signal.reason)
      if (closed) return Promise.reject(closedError())
      const { promise, resolve, reject } = Promise.withResolvers<() => void>()
      const leave = (): void => {
        const queue = waiting.get(tenant)
        queue?.delete(waiter)
        if (queue?.size === 0) waiting.delete(tenant)
        reject(signal.reason)
      }
      const waiter: Waiter = {
        enter() {
          stopListening()
          resolve(slotOf(tenant))
        },
        refuse() {
          stopListening()
          reject(closedError())
        },
      }
      const stopListening = onAbort(signal, leave)
      const queue = waiting.get(tenant) ?? new Set()
      waiting.set(tenant, queue.add(waiter))
      serve()
      return promise
    },
    close() {
      closed = true
      const all = [...waiting.values()].flatMap((queue) => [...queue])
      waiting.clear()
      for (const waiter of all) waiter.refuse()
    },
  }
}

export function closedError(): ToolError {
  return new ToolError('SANDBOX_INIT_FAILED', 'The runtime is closed.')
}
