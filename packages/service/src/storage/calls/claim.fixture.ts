import type { AdmittedCall, Claim } from './call-store.ts'

/** A leased call without a history; a fence above 1 means that other workers had it before. */
export function heldClaim(call: AdmittedCall, fence = 1): Claim {
  const past = { deliveries: fence, begun: fence > 1, deaths: 0, faults: 0, rests: 0, lost: 0 }
  return { callId: call.callId, fence, call, ...past, cancelled: false }
}

const ada = { principal: 'ada', tenant: 'lab', permissions: [] }

/** An admitted chain or program. */
export function longCall(callId: string, kind: 'chain' | 'code', given: Partial<AdmittedCall> = {}): AdmittedCall {
  const tool = kind === 'chain' ? 'chain' : 'code:program:1.0.0'
  return { callId, kind, tool, identity: ada, fingerprint: '', effect: 'repeatable', payloadBytes: 0, ...given }
}
