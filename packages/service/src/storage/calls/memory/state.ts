import { declaredShare } from '@gantry/core/internal/resilience/slots'
import type {
  CallRecords,
  StoredAttempt,
  StoredAudit,
  StoredDeadLetter,
  StoredMessage,
  StoredResult,
} from '../call-records.ts'
import type { AdmittedCall, Holder } from '../call-store.ts'

/** A call without an outcome. */
export interface Live {
  readonly call: AdmittedCall
  /** Order of arrival. */
  readonly place: number
  /**
   * - `ready`: claimable or leased
   * - `held`: waits for a slot of its key
   * - `later`: delayed
   * - `asked`: waits for an approval
   */
  lane: 'ready' | 'held' | 'later' | 'asked'
  runAt: number
  readonly deadline: number | undefined
  fence: number
  /** Undefined while it is not leased. */
  leaseUntil: number | undefined
  worker: string
  deliveries: number
  /** Whether the worker with the lease called `begin`. */
  begun: boolean
  faults: number
  rests: number
  lost: number
  deaths: number
  cancelled: boolean
  /** The fence during which an approval was decided. */
  resumed: number | undefined
  /** The tool that it waits for. */
  needs: string | undefined
  /** Whether only workers with the tool may claim it. */
  kept: boolean
}

/** The state of the store. */
export interface Memory {
  readonly now: () => number
  /** All submitted calls, by id and by tenant, principal and key. */
  readonly calls: Map<string, AdmittedCall>
  readonly keys: Map<string, AdmittedCall>
  readonly live: Map<string, Live>
  readonly records: Writable<CallRecords>
  /** The tenant of the last claim. */
  after: string
  /** Of each slot key, the tenant that got the last slot for which several tenants waited. */
  readonly slotRotation: Map<string, string>
}

type Writable<T> = { readonly [K in keyof T]: T[K] extends readonly (infer Item)[] ? Item[] : never }

export function createMemory(now: () => number): Memory {
  const results: StoredResult[] = []
  const attempts: StoredAttempt[] = []
  const audit: StoredAudit[] = []
  const outbox: StoredMessage[] = []
  const deadLetters: StoredDeadLetter[] = []
  const records = { results, attempts, audit, outbox, deadLetters }
  return { now, calls: new Map(), keys: new Map(), live: new Map(), records, after: '', slotRotation: new Map() }
}

/** The call, when this holder has its lease. */
export function heldBy({ live }: Memory, { callId, fence }: Holder): Live | undefined {
  const found = live.get(callId)
  return found?.fence === fence && found.leaseUntil !== undefined ? found : undefined
}

/** Whether it may have run: a lease expired, or it is a chain or a program that was claimed before. */
export function mayHaveRun({ call, lost, deliveries }: Live): boolean {
  return lost > 0 || (call.kind !== 'call' && deliveries > 0)
}

/** Makes a waiting call claimable, or lets it wait for a slot. */
export function bringBack(memory: Memory, live: Live): void {
  live.lane = live.call.slot === undefined ? 'ready' : 'held'
  fillSlots(memory, [live.call.slot?.key])
}

/**
 * Gives the free slots of these keys to waiting calls: each to the tenant that has the fewest slots of the key, among
 * equals in the rotation of names after the last one served; the oldest call of a tenant first. No tenant gets more than its share.
 */
export function fillSlots({ live, slotRotation }: Memory, keys: readonly (string | undefined)[]): void {
  for (const key of new Set(keys)) {
    if (key === undefined) continue
    const all = [...live.values()].filter(({ call }) => call.slot?.key === key)
    const waiting = all.filter(({ lane }) => lane === 'held').sort((a, b) => a.place - b.place)
    const limit = waiting[0]?.call.slot?.limit ?? 0
    const free = limit - all.filter(({ lane }) => lane === 'ready').length
    if (free <= 0) continue
    const after = slotRotation.get(key) ?? ''
    const taken = inRotation(all, waiting, limit, after).slice(0, free)
    const last = taken.at(-1)
    const areSeveral = new Set(waiting.map(tenantOf)).size > 1
    if (areSeveral && last !== undefined) slotRotation.set(key, tenantOf(last))
    for (const next of taken) next.lane = 'ready'
  }
}

/** The waiting calls of a slot key within the shares of their tenants, in the order in which they get slots. */
function inRotation(all: readonly Live[], waiting: readonly Live[], limit: number, after: string): readonly Live[] {
  const has = new Map<string, number>()
  const count = (one: Live): number => {
    const slots = (has.get(tenantOf(one)) ?? 0) + 1
    has.set(tenantOf(one), slots)
    return slots
  }
  for (const one of all) if (one.lane === 'ready') count(one)
  const placed = waiting
    .map((one) => ({ one, slots: count(one), tenant: tenantOf(one) }))
    .filter(({ slots, tenant }) => slots <= declaredShare(limit, tenant))
  const turnOf = (tenant: string): string => `${tenant > after ? 0 : 1}${tenant}`
  placed.sort((a, b) => a.slots - b.slots || (turnOf(a.tenant) < turnOf(b.tenant) ? -1 : 1))
  return placed.map(({ one }) => one)
}

function tenantOf({ call }: Live): string {
  return call.identity.tenant
}

/** An entry of the audit log for the present operation on a call. */
export function auditOf(
  { call, fence, worker }: Live,
  phase: StoredAudit['phase'],
  more: Partial<StoredAudit> = {},
): StoredAudit {
  const { tenant, principal } = call.identity
  return { phase, callId: call.callId, fence, tenant, principal, tool: call.tool, worker, ...more }
}

/** Records how the present lease ended, in place of an earlier record of it. */
export function noteAttempt(
  { records }: Memory,
  { call, fence, worker }: Live,
  outcome: StoredAttempt['outcome'],
): void {
  const { callId } = call
  const before = records.attempts.findIndex((attempt) => attempt.callId === callId && attempt.fence === fence)
  if (before >= 0) records.attempts.splice(before, 1)
  records.attempts.push({ callId, fence, worker, outcome })
}
