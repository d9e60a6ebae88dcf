import type { AdmittedCall, Claim, ClaimOptions, Share } from '../call-store.ts'
import { needLabel } from '../need.ts'
import { shareOf } from '../share-of.ts'
import { auditOf, type Live, type Memory } from './state.ts'

export function claim(memory: Memory, max: number, options: ClaimOptions): readonly Claim[] {
  const live = [...memory.live.values()]
  const { busy = {}, newcomers = false } = options
  if (isLate(memory, options)) return []
  const ready = live
    .filter(({ lane, leaseUntil }) => lane === 'ready' && leaseUntil === undefined)
    .filter(({ call }) => !newcomers || !Object.hasOwn(busy, call.identity.tenant))
    .sort(byPriority)
  const held = live.filter(({ leaseUntil }) => leaseUntil !== undefined)
  const seats = [...Map.groupBy(ready, ({ call }) => call.identity.tenant)].map(([tenant, calls]) => {
    const share = shareOf(options.shares, tenant)
    const mine = held.filter(({ call }) => call.identity.tenant === tenant)
    return {
      waiting: claimable(calls, mine, share, options).slice(0, newcomers ? 1 : undefined),
      turn: `${tenant > memory.after ? 0 : 1}${tenant}`,
      load: new Map(Object.entries(busy)).get(tenant) ?? 0,
      weight: share.weight ?? 1,
    }
  })
  const taken: Live[] = []
  while (taken.length < max) {
    const hungry = seats.filter(({ waiting }) => waiting.length > 0)
    hungry.sort((a, b) => (a.load + 1) / a.weight - (b.load + 1) / b.weight || (a.turn < b.turn ? -1 : 1))
    const [next] = hungry
    const call = next?.waiting.shift()
    if (next === undefined || call === undefined) break
    next.load += 1
    taken.push(call)
  }
  taken.sort(byPriority)
  memory.after = taken.at(-1)?.call.identity.tenant ?? ''
  return taken.map((one) => lease(memory, one, options))
}

/** Calls of a tenant that a worker may have, in order, as many as the limits of the tenant and its principals leave. */
function claimable(calls: readonly Live[], held: readonly Live[], share: Share, options: ClaimOptions): Live[] {
  const limits = new Map(Object.entries(share.principals ?? {}))
  const room = new Map<string, number>()
  const roomOf = (who: string): number => {
    const limit = limits.get(who) ?? limits.get('*') ?? Number.POSITIVE_INFINITY
    return room.get(who) ?? limit - held.filter(({ call }) => call.identity.principal === who).length
  }
  const allowed = calls.filter(({ call, needs, kept }) => {
    const { principal } = call.identity
    if (!fits(call, options) || (kept && !hasNeed(needs, options)) || roomOf(principal) <= 0) return false
    room.set(principal, roomOf(principal) - 1)
    return true
  })
  return allowed.slice(0, Math.max(0, (share.concurrency ?? Number.POSITIVE_INFINITY) - held.length))
}

function byPriority(a: Live, b: Live): number {
  return (b.call.priority ?? 0) - (a.call.priority ?? 0) || a.place - b.place
}

/** Gives a call that nobody holds to a new holder. */
export function lease({ now, records }: Memory, live: Live, { worker, leaseMs }: ClaimOptions): Claim {
  live.fence += 1
  live.deliveries += 1
  live.leaseUntil = now() + leaseMs
  live.worker = worker
  records.audit.push(auditOf(live, 'start'))
  const { call, fence, deliveries, faults, rests, lost, deaths, cancelled, deadline } = live
  const waited = live.needs !== undefined && live.runAt <= now() ? ({ waitedOut: true } as const) : {}
  const past = { deliveries, faults, rests, lost, deaths, ...waited, cancelled }
  const plain = { callId: call.callId, fence, call: withoutTimes(call), ...past }
  return { ...plain, begun: deaths > 0, ...(deadline === undefined ? {} : { deadlineMs: deadline - now() }) }
}

/** Whether it is too late to claim anything. */
export function isLate({ now }: Memory, { notAfter }: ClaimOptions): boolean {
  return notAfter !== undefined && now() > notAfter
}

/** Whether a worker has all the labels that a call wants. */
export function fits({ placement = {} }: AdmittedCall, { labels = {} }: ClaimOptions): boolean {
  return Object.entries(placement).every(([label, value]) => Object.hasOwn(labels, label) && labels[label] === value)
}

function hasNeed(needs: string | undefined, { labels = {} }: ClaimOptions): boolean {
  return needs !== undefined && Object.hasOwn(labels, needLabel(needs))
}

function withoutTimes({ delayMs: _, deadlineMs: __, ...call }: AdmittedCall): AdmittedCall {
  return call
}
