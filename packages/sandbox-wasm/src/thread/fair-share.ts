import { ToolError } from '@gantry/contract'

/**
 * The fair share of threads between tenants, within a concurrency limit. The next slot goes to the tenant with the fewest
 * threads, and of equal ones that which was served longest ago; within a tenant the order is that of arrival. A tenant has
 * all threads only as long as no other has lately asked for one; else three quarters of them, so that one is free for those
 * that have none, however long its programs run. Work without a tenant takes turns too, and has no such limit.
 */
export interface FairShare {
  /**
   * Resolves with the function that ends the turn (twice is harmless).
   * Rejects with the signal's reason when it aborts first, and with SANDBOX_INIT_FAILED after `close`; nothing is held then.
   */
  take(signal: AbortSignal, tenant?: string): Promise<() => void>
  /** Rejects those that wait and those that come. */
  close(): void
}

interface Waiter {
  enter(): void
  refuse(): void
}

/** For how long a tenant that asked for a thread keeps others from having all of them. */
const knownMs = 600_000
const shareOfTenant = 0.75

export function createFairShare(most: number, now: () => number = () => performance.now()): FairShare {
  /** By tenant, the one that was served longest ago first; sets, so that leaving from the middle costs nothing. */
  const waiting = new Map<string, Set<Waiter>>()
  const held = new Map<string, number>()
  /** When the two tenants that asked last did so, the last one last: one of them is another one than whichever asks. */
  const asked = new Map<string, number>()
  let running = 0
  let closed = false

  const count = (tenant: string, by: 1 | -1): void => {
    running += by
    const number = (held.get(tenant) ?? 0) + by
    if (number > 0) held.set(tenant, number)
    else held.delete(tenant)
  }
  const note = (tenant: string): void => {
    if (tenant === '') return
    asked.delete(tenant)
    asked.set(tenant, now())
    const [oldest] = asked.keys()
    if (asked.size > 2 && oldest !== undefined) asked.delete(oldest)
  }
  const mayHaveMore = (tenant: string): boolean => {
    if (tenant === '') return true
    const isAlone = ![...asked].some(([other, at]) => other !== tenant && now() - at < knownMs)
    return (held.get(tenant) ?? 0) < (isAlone ? most : Math.max(1, Math.floor(most * shareOfTenant)))
  }
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
      const line = tenant === undefined ? undefined : waiting.get(tenant)
      const [waiter] = line ?? []
      if (tenant === undefined || line === undefined || waiter === undefined) return
      line.delete(waiter)
      waiting.delete(tenant)
      if (line.size > 0) waiting.set(tenant, line)
      count(tenant, 1)
      waiter.enter()
    }
  }
  const turnOf = (tenant: string): (() => void) => {
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
        const line = waiting.get(tenant)
        line?.delete(waiter)
        if (line?.size === 0) waiting.delete(tenant)
        reject(signal.reason)
      }
      const waiter: Waiter = {
        enter() {
          signal.removeEventListener('abort', leave)
          resolve(turnOf(tenant))
        },
        refuse() {
          signal.removeEventListener('abort', leave)
          reject(closedError())
        },
      }
      signal.addEventListener('abort', leave, { once: true })
      const line = waiting.get(tenant) ?? new Set()
      waiting.set(tenant, line.add(waiter))
      note(tenant)
      serve()
      return promise
    },
    close() {
      closed = true
      const all = [...waiting.values()].flatMap((line) => [...line])
      waiting.clear()
      for (const waiter of all) waiter.refuse()
    },
  }
}

export function closedError(): ToolError {
  return new ToolError('SANDBOX_INIT_FAILED', 'The runtime is closed.')
}
