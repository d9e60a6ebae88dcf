import type { CallStore } from '../storage/calls/call-store.ts'
import { type CountedPlaces, createCountedPlaces } from './counted-slots.ts'

/** The places of each tenant for calls that wait, under the names of its principals. */
export interface QueueRoom {
  of(tenant: string): CountedPlaces
}

const mostTenants = 10_000

export function createQueueRoom(
  store: Pick<CallStore, 'waiting'>,
  most: () => number,
  now: () => number = () => performance.now(),
): QueueRoom {
  const tenants = new Map<string, CountedPlaces>()
  const forgetIdle = (): void => {
    for (const [tenant, places] of tenants) if (places.idle) tenants.delete(tenant)
  }
  return {
    of(tenant) {
      const found = tenants.get(tenant)
      if (found !== undefined) return found
      if (tenants.size >= mostTenants) forgetIdle()
      const made = createCountedPlaces(() => store.waiting(tenant, most() + 1), now)
      tenants.set(tenant, made)
      return made
    },
  }
}
