import type { CallStore } from '../stores/call-store.ts'

/**
 * How many calls of each tenant and principal wait, as it was counted not long ago, and what came in here since. Before a
 * call is refused they are counted again, unless that was done a moment ago.
 */
export interface QueueRoom {
  /** Whether there are fewer than so many of the tenant, or of the principal; rejects when they cannot be counted. */
  hasRoom(tenant: string, principal: string | undefined, limit: number): Promise<boolean>
  /** One more came in, or is not going to wait after all. */
  add(tenant: string, principal: string, calls: 1 | -1): void
}

interface Counted {
  at: number
  calls: ReadonlyMap<string, number>
  /** Since the count began. */
  added: Map<string, number>
  counting: Promise<void> | undefined
}

const oldMs = 1_000
const freshMs = 50
const mostTenants = 10_000

export function createQueueRoom(
  store: Pick<CallStore, 'waiting'>,
  most: () => number,
  now: () => number = () => performance.now(),
): QueueRoom {
  const tenants = new Map<string, Counted>()
  const countedOf = (tenant: string): Counted => {
    const found = tenants.get(tenant)
    if (found !== undefined) return found
    if (tenants.size >= mostTenants) tenants.clear()
    const made: Counted = { at: Number.NEGATIVE_INFINITY, calls: new Map(), added: new Map(), counting: undefined }
    tenants.set(tenant, made)
    return made
  }
  const count = async (tenant: string, counted: Counted): Promise<void> => {
    const added = new Map<string, number>()
    const before = counted.added
    counted.added = added
    try {
      counted.calls = await store.waiting(tenant, most() + 1)
      counted.at = now()
    } catch (error) {
      for (const [principal, calls] of before) added.set(principal, (added.get(principal) ?? 0) + calls)
      throw error
    } finally {
      counted.counting = undefined
    }
  }
  const known = async (tenant: string, ageMs: number): Promise<Counted> => {
    const counted = countedOf(tenant)
    if (now() - counted.at < ageMs) return counted
    counted.counting ??= count(tenant, counted)
    await counted.counting
    return counted
  }
  return {
    async hasRoom(tenant, principal, limit) {
      if (sumOf(await known(tenant, oldMs), principal) < limit) return true
      return sumOf(await known(tenant, freshMs), principal) < limit
    },
    add(tenant, principal, calls) {
      const { added } = countedOf(tenant)
      added.set(principal, (added.get(principal) ?? 0) + calls)
    },
  }
}

function sumOf({ calls, added }: Counted, principal: string | undefined): number {
  const of = (counts: ReadonlyMap<string, number>): number =>
    principal === undefined ? [...counts.values()].reduce((sum, n) => sum + n, 0) : (counts.get(principal) ?? 0)
  return of(calls) + of(added)
}
