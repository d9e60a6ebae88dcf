import type { CallRecords, KeptAttempt, KeptAudit, KeptLetter, KeptMessage, KeptResult } from '../call-records.ts'
import type { AdmittedCall, Holder } from '../call-store.ts'

/** A call without an outcome. */
export interface Live {
  readonly call: AdmittedCall
  /** Order in which it came. */
  readonly place: number
  /**
   * `ready`: it can be claimed, or is; `held`: it stands behind others of its slot key; `later`: its time has not come;
   * `asked`: it waits for a person.
   */
  lane: 'ready' | 'held' | 'later' | 'asked'
  runAt: number
  readonly deadline: number | undefined
  fence: number
  /** Absent while nobody holds it. */
  leaseUntil: number | undefined
  worker: string
  deliveries: number
  /** The present holder said that it begins. */
  begun: boolean
  faults: number
  rests: number
  lost: number
  deaths: number
  cancelled: boolean
  /** The fence under which a person's decision came. */
  resumed: number | undefined
  /** The tool that workers which claimed it did not have. */
  needs: string | undefined
  /** Only workers that have the tool may claim it. */
  kept: boolean
}

/** Everything that is kept. */
export interface Memory {
  readonly now: () => number
  /** Every call that ever came, by id and by tenant, principal and key. */
  readonly calls: Map<string, AdmittedCall>
  readonly keys: Map<string, AdmittedCall>
  readonly live: Map<string, Live>
  readonly records: Writable<CallRecords>
  /** The tenant whose turn it was last. */
  after: string
}

type Writable<T> = { readonly [K in keyof T]: T[K] extends readonly (infer Item)[] ? Item[] : never }

export function createMemory(now: () => number): Memory {
  const results: KeptResult[] = []
  const attempts: KeptAttempt[] = []
  const audit: KeptAudit[] = []
  const outbox: KeptMessage[] = []
  const deadLetters: KeptLetter[] = []
  const records = { results, attempts, audit, outbox, deadLetters }
  return { now, calls: new Map(), keys: new Map(), live: new Map(), records, after: '' }
}

/** The call, when this holder holds it. */
export function heldBy({ live }: Memory, { callId, fence }: Holder): Live | undefined {
  const found = live.get(callId)
  return found?.fence === fence && found.leaseUntil !== undefined ? found : undefined
}

/** Whether an earlier holder may have run it: he was lost, or it is a chain or a program, of which he may have run a part. */
export function mayHaveRun({ call, lost, deliveries }: Live): boolean {
  return lost > 0 || (call.kind !== 'call' && deliveries > 0)
}

/** Lets a call that waits come in its turn again. */
export function bringBack(memory: Memory, live: Live): void {
  live.lane = live.call.slot === undefined ? 'ready' : 'held'
  fillSlots(memory, [live.call.slot?.key])
}

/** Lets as many calls of these slot keys be claimed as there are slots, oldest first. */
export function fillSlots({ live }: Memory, keys: readonly (string | undefined)[]): void {
  for (const key of new Set(keys)) {
    if (key === undefined) continue
    const all = [...live.values()].filter(({ call }) => call.slot?.key === key)
    const waiting = all.filter(({ lane }) => lane === 'held').sort((a, b) => a.place - b.place)
    const free = (waiting[0]?.call.slot?.limit ?? 0) - all.filter(({ lane }) => lane === 'ready').length
    for (const next of waiting.slice(0, Math.max(0, free))) next.lane = 'ready'
  }
}

/** A line of the audit record about what is done with a call now. */
export function auditOf(
  { call, fence, worker }: Live,
  phase: KeptAudit['phase'],
  more: Partial<KeptAudit> = {},
): KeptAudit {
  const { tenant, principal } = call.identity
  return { phase, callId: call.callId, fence, tenant, principal, tool: call.tool, worker, ...more }
}

/** Notes how the present holder parted from a call; what was noted of him before is no longer true. */
export function noteAttempt({ records }: Memory, { call, fence, worker }: Live, outcome: KeptAttempt['outcome']): void {
  const { callId } = call
  const before = records.attempts.findIndex((attempt) => attempt.callId === callId && attempt.fence === fence)
  if (before >= 0) records.attempts.splice(before, 1)
  records.attempts.push({ callId, fence, worker, outcome })
}
