import { freesKey, needLabel, shareOf, unrunEnding } from '../call-facts.ts'
import type {
  AdmittedCall,
  Claim,
  ClaimOptions,
  Ending,
  Reclaimed,
  ReclaimOptions,
  Share,
  Submitted,
} from '../call-store.ts'
import { auditOf, fillSlots, type Live, type Memory, mayHaveRun, noteAttempt } from './state.ts'

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

/** Calls of a tenant that a worker may claim, in order, within the concurrency limits of tenant and principals. */
function claimable(calls: readonly Live[], held: readonly Live[], share: Share, options: ClaimOptions): Live[] {
  const limits = new Map(Object.entries(share.principals ?? {}))
  const freeSlots = new Map<string, number>()
  const freeSlotsOf = (who: string): number => {
    const limit = limits.get(who) ?? limits.get('*') ?? Number.POSITIVE_INFINITY
    return freeSlots.get(who) ?? limit - held.filter(({ call }) => call.identity.principal === who).length
  }
  const allowed = calls.filter(({ call, needs, kept }) => {
    const { principal } = call.identity
    if (!fits(call, options) || (kept && !hasNeed(needs, options)) || freeSlotsOf(principal) <= 0) return false
    freeSlots.set(principal, freeSlotsOf(principal) - 1)
    return true
  })
  return allowed.slice(0, Math.max(0, (share.concurrency ?? Number.POSITIVE_INFINITY) - held.length))
}

function byPriority(a: Live, b: Live): number {
  return (b.call.priority ?? 0) - (a.call.priority ?? 0) || a.place - b.place
}

/** Leases a call to a worker. */
function lease({ now, records }: Memory, live: Live, { worker, leaseMs }: ClaimOptions): Claim {
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

/** Whether `notAfter` has passed. */
function isLate({ now }: Memory, { notAfter }: ClaimOptions): boolean {
  return notAfter !== undefined && now() > notAfter
}

/** Whether a worker has all labels of a call's placement. */
function fits({ placement = {} }: AdmittedCall, { labels = {} }: ClaimOptions): boolean {
  return Object.entries(placement).every(([label, value]) => Object.hasOwn(labels, label) && labels[label] === value)
}

function hasNeed(needs: string | undefined, { labels = {} }: ClaimOptions): boolean {
  return needs !== undefined && Object.hasOwn(labels, needLabel(needs))
}

function withoutTimes({ delayMs: _, deadlineMs: __, ...call }: AdmittedCall): AdmittedCall {
  return call
}

export function submit(
  memory: Memory,
  calls: readonly AdmittedCall[],
  claim?: ClaimOptions,
  unflushed = false,
): readonly Submitted[] {
  const answers = calls.map((call) => submitOne(memory, call, claim, unflushed))
  fillSlots(
    memory,
    calls.map(({ slot }) => slot?.key),
  )
  return answers
}

function submitOne(memory: Memory, call: AdmittedCall, claim: ClaimOptions | undefined, unflushed: boolean): Submitted {
  const { callId } = call
  const before = known(memory, call)
  if (before !== undefined) return before
  memory.calls.set(callId, call)
  if (call.key !== undefined) memory.keys.set(keyOf(call), call)
  const live = enter(memory, call)
  memory.live.set(callId, live)
  const unclaimed = claim === undefined || isLate(memory, claim) || live.lane !== 'ready' || !fits(call, claim)
  if (unclaimed) return { kind: 'new', callId }
  const leased = lease(memory, live, claim)
  live.begun = true
  return { kind: 'new', callId, claim: unflushed ? { ...leased, unflushed } : leased }
}

export function known(memory: Memory, call: AdmittedCall): Submitted | undefined {
  const before = memory.calls.get(call.callId) ?? memory.keys.get(keyOf(call))
  return before && { kind: isSame(before, call) ? 'duplicate' : 'conflict', callId: before.callId }
}

function enter({ now, calls }: Memory, call: AdmittedCall): Live {
  const time = now()
  const { delayMs = 0, deadlineMs } = call
  const lane = delayMs > 0 ? 'later' : call.slot === undefined ? 'ready' : 'held'
  const deadline = deadlineMs === undefined ? undefined : time + deadlineMs
  const free = { fence: 0, leaseUntil: undefined, worker: '', deliveries: 0 }
  const past = { begun: false, faults: 0, rests: 0, lost: 0, deaths: 0, cancelled: false, resumed: undefined }
  const tool = { needs: undefined, kept: false }
  return { call, place: calls.size, lane, runAt: time + delayMs, deadline, ...free, ...past, ...tool }
}

function keyOf({ identity: { tenant, principal }, key }: AdmittedCall): string {
  return key === undefined ? '' : JSON.stringify([tenant, principal, key])
}

/** Whether two calls have the same caller, key and fingerprint. */
function isSame(one: AdmittedCall, other: AdmittedCall): boolean {
  const mine = one.identity.tenant === other.identity.tenant && one.identity.principal === other.identity.principal
  return mine && one.key === other.key && one.fingerprint === other.fingerprint
}

/** Completes calls under their present fence, leased or reclaimed. */
export function finish(memory: Memory, endings: readonly Ending[]): readonly string[] {
  return end(memory, endings, ({ worker, fence }, ending) => {
    if (ending.fence !== fence) return undefined
    return { fence, worker }
  })
}

/** Ends calls that no worker ran, under a new fence, so that no late worker takes the outcome for its own. */
export function endUnrun(memory: Memory, endings: readonly Ending[]): readonly string[] {
  return end(memory, endings, (live, ending) => {
    if (live.fence !== ending.fence || live.leaseUntil !== undefined || mayHaveRun(live)) return undefined
    return { fence: live.fence + 1, worker: undefined }
  })
}

interface Ender {
  readonly fence: number
  readonly worker: string | undefined
}

function end(
  memory: Memory,
  endings: readonly Ending[],
  enderOf: (live: Live, ending: Ending) => Ender | undefined,
): readonly string[] {
  const accepted: string[] = []
  const keys: (string | undefined)[] = []
  for (const ending of endings) {
    const live = memory.live.get(ending.callId)
    const ender = live === undefined ? undefined : enderOf(live, ending)
    if (live === undefined || ender === undefined) continue
    memory.live.delete(ending.callId)
    if (freesKey(ending) && live.call.reply === undefined) memory.keys.delete(keyOf(live.call))
    if (ender.worker !== undefined) noteAttempt(memory, live, ending.result.status)
    record(memory, live, ending, ender)
    accepted.push(ending.callId)
    keys.push(live.call.slot?.key)
  }
  fillSlots(memory, keys)
  return accepted
}

function record({ records }: Memory, live: Live, ending: Ending, { fence, worker }: Ender): void {
  const { callId, result, text, ref, bytes, dead, config } = ending
  const { call, deliveries } = live
  const { tenant } = call.identity
  const how = { status: result.status, ...(result.error === undefined ? {} : { code: result.error.code }) }
  const where = { ...(text === undefined ? {} : { text }), ...(ref === undefined ? {} : { ref }) }
  records.results.push({ callId, fence, ...how, ...where, bytes })
  const { worker: _, ...line } = auditOf(live, 'end', { fence, ...how, ...(config === undefined ? {} : { config }) })
  records.audit.push(worker === undefined ? line : { ...line, worker })
  if (call.callback !== undefined) records.outbox.push({ callId, tenant, kind: 'callback', target: call.callback })
  if (call.reply !== undefined) records.outbox.push({ callId, tenant, kind: 'reply', target: call.reply.to })
  if (dead === undefined) return
  const { reason } = dead
  const code = result.error?.code ?? 'INTERNAL'
  records.deadLetters.push({ id: callId, tenant, callId, source: 'call', reason, code, tool: call.tool, deliveries })
}

export function reclaim(memory: Memory, { max, leases = 'expired', notAfter }: ReclaimOptions): Reclaimed {
  const time = memory.now()
  const live = [...memory.live.values()]
  const needed = live.flatMap(({ needs }) => needs ?? [])
  const overdue = live.filter((one) => one.leaseUntil === undefined && !mayHaveRun(one) && isOver(one.deadline, time))
  const until = { all: Number.POSITIVE_INFINITY, none: Number.NEGATIVE_INFINITY, expired: time }[
    isOver(notAfter, time) ? 'none' : leases
  ]
  const leased = live.filter(({ leaseUntil }) => leaseUntil !== undefined && leaseUntil < until)
  const lost = leased.slice(0, max).map((one) => reclaimCall(memory, one))
  const due = live.filter((one) => waits(one) && one.runAt <= time).slice(0, max)
  for (const one of due) {
    one.lane = one.call.slot === undefined ? 'ready' : 'held'
    one.kept = false
  }
  const unmet = live.filter((one) => isUnmet(one) && one.runAt <= time).slice(0, max)
  for (const one of unmet) one.kept = false
  fillSlots(
    memory,
    due.map(({ call }) => call.slot?.key),
  )
  const ends = overdue
    .slice(0, max)
    .map(({ call, fence, deliveries, needs }) =>
      unrunEnding({ ...call, fence, deliveries, needs }, 'TIMEOUT', new Date(time)),
    )
  const next = nextMs(memory, due.length === max)
  const expired = endUnrun(memory, ends)
  const wanted = needed.length === 0 ? {} : { wanted: [...new Set(needed)] }
  return {
    lost,
    promoted: due.length + unmet.length,
    expired,
    ...wanted,
    ...next,
    ...(notAfter === undefined ? {} : { at: time }),
  }
}

/** Reclaims a lease. The fence stays, so that a late worker can still complete the call. */
function reclaimCall(memory: Memory, live: Live): string {
  noteAttempt(memory, live, 'lost')
  memory.records.audit.push(auditOf(live, 'lost'))
  live.leaseUntil = undefined
  live.lost += 1
  if (live.begun) live.deaths += 1
  live.begun = false
  return live.call.callId
}

function waits({ lane }: Live): boolean {
  return lane === 'later' || lane === 'asked'
}

function isUnmet({ kept, lane, leaseUntil }: Live): boolean {
  return kept && lane === 'ready' && leaseUntil === undefined
}

function isOver(deadline: number | undefined, time: number): boolean {
  return deadline !== undefined && deadline < time
}

function nextMs({ live, now }: Memory, more: boolean): Pick<Reclaimed, 'nextMs'> {
  if (more) return { nextMs: 0 }
  const times = [...live.values()].flatMap((one) => (waits(one) ? [one.runAt] : []))
  return times.length === 0 ? {} : { nextMs: Math.max(0, Math.min(...times) - now()) }
}
