import { unrunEnding } from './call-facts.ts'
import type { CallRecords } from './call-records.ts'
import type { CallStore } from './call-store.ts'
import { auditOf, bringBack, createMemory, fillSlots, heldBy, noteAttempt } from './memory/state.ts'
import { claim, endUnrun, finish, known, reclaim, submit } from './memory/transitions.ts'

/** The store with access to its records, for tests. */
export interface MemoryCallStore extends CallStore {
  readonly records: CallRecords
}

/**
 * The call store in memory, with an injected clock, for the simulator and for tests. Each operation completes before it
 * returns its promise, so operations never interleave.
 */
export function memoryCallStore({ now }: { readonly now: () => number }): MemoryCallStore {
  const memory = createMemory(now)
  return {
    records: memory.records,
    submit: async (calls, options, how) => submit(memory, calls, options, how?.unflushed),
    flush: async (callId) => memory.calls.has(callId),
    known: async (call) => known(memory, call),
    claim: async (max, options) => claim(memory, max, options),
    async begin(holders) {
      const held = holders.flatMap((holder) => heldBy(memory, holder) ?? [])
      for (const live of held) live.begun = true
      return held.map(({ call }) => call.callId)
    },
    async extend(holders, leaseMs) {
      const held = holders.flatMap((holder) => heldBy(memory, holder) ?? [])
      for (const live of held) live.leaseUntil = now() + leaseMs
      const cancelled = held.filter((live) => live.cancelled).map(({ call }) => call.callId)
      return { lost: holders.filter((holder) => !heldBy(memory, holder)).map(({ callId }) => callId), cancelled }
    },
    async release(holders) {
      for (const { delayMs = 0, asked = false, counts, needs, ...holder } of holders) {
        const live = heldBy(memory, holder)
        if (live === undefined) continue
        noteAttempt(memory, live, 'released')
        memory.records.audit.push(auditOf(live, 'released'))
        live.leaseUntil = undefined
        live.begun = false
        if (counts === 'fault') live.faults += 1
        if (counts === 'rest') live.rests += 1
        const sameNeed = needs !== undefined && needs === live.needs
        live.needs = live.cancelled ? undefined : needs
        live.kept = live.needs !== undefined
        const comesBack = live.cancelled || (asked ? live.resumed === live.fence : delayMs <= 0)
        if (comesBack) continue
        live.lane = asked ? 'asked' : 'later'
        if (sameNeed) {
          fillSlots(memory, [live.call.slot?.key])
          continue
        }
        live.runAt = Math.min(now() + delayMs, (asked ? live.deadline : undefined) ?? Number.POSITIVE_INFINITY)
        fillSlots(memory, [live.call.slot?.key])
      }
    },
    async resume(callId) {
      const live = memory.live.get(callId)
      if (live === undefined) return
      live.resumed = live.fence
      if (live.lane === 'asked') bringBack(memory, live)
    },
    async offer(needs, max) {
      const waiting = [...memory.live.values()].filter(
        ({ lane, needs: need }) => lane === 'later' && need !== undefined && needs.includes(need),
      )
      const offered = waiting.slice(0, max)
      for (const live of offered) bringBack(memory, live)
      return offered.length
    },
    finish: async (endings) => finish(memory, endings),
    async outcomes(holders) {
      const ended = new Set(memory.records.results.map(({ callId, fence }) => JSON.stringify([callId, fence])))
      return holders.filter((one) => ended.has(JSON.stringify([one.callId, one.fence]))).map(({ callId }) => callId)
    },
    reclaim: async (options) => reclaim(memory, options),
    async cancel(callId, tenant) {
      if (memory.calls.get(callId)?.identity.tenant !== tenant) return 'absent'
      const live = memory.live.get(callId)
      if (live === undefined) return 'finished'
      live.cancelled = true
      live.needs = undefined
      live.kept = false
      const { call, fence, deliveries } = live
      const ending = unrunEnding({ ...call, fence, deliveries }, 'CANCELLED', new Date(now()))
      if (endUnrun(memory, [ending]).length > 0) return 'ended'
      if (live.lane === 'asked' || live.lane === 'later') bringBack(memory, live)
      return 'asked'
    },
    async depth(most) {
      const waiting = [...memory.live.values()].filter(
        ({ lane, leaseUntil }) => (lane === 'ready' || lane === 'held') && leaseUntil === undefined,
      )
      return Math.min(most, waiting.length)
    },
    async waiting(tenant, most) {
      const calls = [...memory.live.values()].filter(
        ({ call, leaseUntil }) => call.identity.tenant === tenant && leaseUntil === undefined,
      )
      const counts = new Map<string, number>()
      for (const { call } of calls.slice(0, most)) {
        const { principal } = call.identity
        counts.set(principal, (counts.get(principal) ?? 0) + 1)
      }
      return counts
    },
  }
}
