import type { AdmittedCall, Claim, ClaimOptions } from '../call-store.ts'
import { auditOf, type Live, type Memory } from './state.ts'

export function claim(memory: Memory, max: number, options: ClaimOptions): readonly Claim[] {
  const waiting = [...memory.live.values()].filter(
    ({ lane, leaseUntil, call }) => lane === 'ready' && leaseUntil === undefined && fits(call, options),
  )
  waiting.sort((a, b) => (b.call.priority ?? 0) - (a.call.priority ?? 0) || a.place - b.place)
  return waiting.slice(0, max).map((live) => lease(memory, live, options))
}

/** Gives a call that nobody holds to a new holder. */
export function lease({ now, records }: Memory, live: Live, { worker, leaseMs }: ClaimOptions): Claim {
  live.fence += 1
  live.deliveries += 1
  live.leaseUntil = now() + leaseMs
  live.worker = worker
  records.audit.push(auditOf(live, 'start'))
  const { call, fence, deliveries, lost, deaths, cancelled, deadline } = live
  const plain = { callId: call.callId, fence, call: withoutTimes(call), deliveries, lost, deaths, cancelled }
  return { ...plain, begun: deaths > 0, ...(deadline === undefined ? {} : { deadlineMs: deadline - now() }) }
}

/** Whether a worker has all the labels that a call wants. */
export function fits({ placement = {} }: AdmittedCall, { labels = {} }: ClaimOptions): boolean {
  return Object.entries(placement).every(([label, value]) => Object.hasOwn(labels, label) && labels[label] === value)
}

function withoutTimes({ delayMs: _, deadlineMs: __, ...call }: AdmittedCall): AdmittedCall {
  return call
}
