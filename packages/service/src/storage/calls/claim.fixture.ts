import type { AdmittedCall, Claim } from './call-store.ts'

/** A call in the hands of a worker, with nothing behind it; a higher fence than 1 says that others had it before. */
export function heldClaim(call: AdmittedCall, fence = 1): Claim {
  const past = { deliveries: fence, begun: fence > 1, deaths: 0, faults: 0, rests: 0, lost: 0 }
  return { callId: call.callId, fence, call, ...past, cancelled: false }
}
