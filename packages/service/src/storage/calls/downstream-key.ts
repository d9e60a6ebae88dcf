import { hash } from 'node:crypto'
import type { AdmittedCall } from './call-store.ts'

/**
 * What a tool passes on so that a repeat is known as one: the same for every attempt and for a call that was handed in
 * again, and of this caller alone.
 */
export function downstreamKey({
  identity,
  key,
  callId,
  effectKey,
}: Pick<AdmittedCall, 'identity' | 'key' | 'callId' | 'effectKey'>): string {
  if (effectKey !== undefined) return effectKey
  if (key === undefined) return callId
  return hash('sha256', JSON.stringify([identity.tenant, identity.principal, key]))
}
