import type { AdmittedCall, ClaimOptions, Submitted } from '../call-store.ts'
import { fits, isLate, lease } from './claim.ts'
import { fillSlots, type Live, type Memory } from './state.ts'

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

export function keyOf({ identity: { tenant, principal }, key }: AdmittedCall): string {
  return key === undefined ? '' : JSON.stringify([tenant, principal, key])
}

/** The same caller asks for the same under the same name. */
function isSame(one: AdmittedCall, other: AdmittedCall): boolean {
  const mine = one.identity.tenant === other.identity.tenant && one.identity.principal === other.identity.principal
  return mine && one.key === other.key && one.fingerprint === other.fingerprint
}
